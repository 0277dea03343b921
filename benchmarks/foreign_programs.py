"""Programs and libraries other than askance that write files, and the list of the files that they write.

Each is imported or started only when its file is made.
"""

import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from email.message import EmailMessage
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.foreign_content import AUTHOR, FILLER, Content
from benchmarks.foreign_odf import flat_presentation, flat_spreadsheet, flat_text
from benchmarks.foreign_tables import openpyxl, pandas_table, pandas_text, xlsxwriter

Make = Callable[[Path, Content], None]
PAGES = ("p. 1", "p. 2")
OFFICE = ("soffice", "libreoffice")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class NotInstalled(Exception):
    """A program is not installed. The message says how to install it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program or library.

    Attributes:
        package: The package of PyPI, by which a library is found; empty for Python itself.
        commands: The names of the executable file, if it is no library.
    """

    name: str
    package: str = ""
    commands: tuple[str, ...] = ()

    def version(self) -> str:
        """Return the version.

        Raises:
            NotInstalled: It is not installed.
        """
        if self.commands:
            printed = _run(executable(self.commands), "--version")
            return next(iter(re.findall(r"\d[\d.]+", printed)), "?")
        if not self.package:
            return platform.python_version()
        try:
            found = version(self.package)
        except PackageNotFoundError as error:
            raise NotInstalled(f"pip install {self.package}") from error
        return str(import_module("pypandoc").get_pandoc_version()) if self.name == "pandoc" else found


def executable(names: Sequence[str]) -> str:
    """Return the path of the first of these programs that exists.

    Raises:
        NotInstalled: None of them exists.
    """
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise NotInstalled(f"install {names[0]} so that it is found on the PATH")
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def pandoc(path: Path, content: Content) -> None:
    """Convert Markdown to the format of the file's extension."""
    if path.suffix == ".pptx":
        book = content.handbook(pages=("p. 2", "p. 3"))  # after a slide with the title
        source = book.markdown(f"\n\n::: notes\n{book.note}\n:::\n")
    else:
        book = content.handbook()
        source = book.markdown()
    # pandoc writes title and author into RTF like lines of the text, so that the first heading counts
    if path.suffix == ".rtf":
        content.facts[:] = [replace(fact, title=book.payload, author="") for fact in content.facts]
    convert = import_module("pypandoc").convert_text
    to = {".tex": "latex", ".adoc": "asciidoc", ".md": "gfm"}.get(path.suffix, path.suffix[1:])
    convert(source, to, format="markdown", outputfile=str(path), extra_args=["--standalone"])


def libreoffice(path: Path, content: Content) -> None:
    """Convert a flat OpenDocument file to the format of the file's extension."""
    if path.suffix in (".xlsx", ".ods", ".csv"):
        flat, source = ".fods", flat_spreadsheet(content, has_sheets=path.suffix != ".csv")
    elif path.suffix in (".pptx", ".odp"):
        flat, source = ".fodp", flat_presentation(content)
    else:
        pages = PAGES if path.suffix == ".pdf" else ("", "")
        flat, source = ".fodt", flat_text(content.handbook(pages=pages))
    bookmarks = '{"ExportBookmarks":{"type":"boolean","value":"true"}}'
    filters = {".html": "html:XHTML Writer File", ".pdf": f"pdf:writer_pdf_Export:{bookmarks}"}
    to = filters.get(path.suffix, path.suffix[1:])
    with TemporaryDirectory() as folder:
        Path(folder, path.stem + flat).write_text(source, encoding="utf-8")
        profile = f"-env:UserInstallation={(path.parent.parent / 'libreoffice').resolve().as_uri()}"
        _run(executable(OFFICE), profile, "--headless", "--convert-to", to, "--outdir", str(path.parent),
             str(Path(folder, path.stem + flat)))  # fmt: skip


def python_docx(path: Path, content: Content) -> None:
    """Write a Word document whose title is a paragraph, with the properties of python-docx's template."""
    book = content.handbook(has_note=False)
    document = import_module("docx").Document()
    document.core_properties.author = AUTHOR
    document.add_heading(book.title, 0)
    document.add_heading(book.payload, 1)
    document.add_paragraph(book.body)
    document.add_paragraph(book.item, style="List Bullet")
    table = document.add_table(rows=0, cols=2)
    for row in book.table:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_page_break()
    document.add_heading(book.range, 1)
    document.add_paragraph(f"{book.last}.")
    document.save(path)


def python_pptx(path: Path, content: Content) -> None:
    """Write a presentation of two slides with a table and notes, with the properties of the template."""
    pptx = import_module("pptx")
    presentation = pptx.Presentation()
    presentation.core_properties.author = AUTHOR
    expected = content.handbook(pages=("p. 2", "p. 3"))
    first = presentation.slides.add_slide(presentation.slide_layouts[0])
    first.shapes.title.text = expected.title
    for heading, texts in expected.sections[0], (expected.range, (expected.last,)):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = heading
        slide.placeholders[1].text = "\n".join(texts)
        if heading == expected.payload:
            size = pptx.util.Inches(4)
            table = slide.shapes.add_table(2, 2, size, size, size, size).table
            for number, row in enumerate(expected.table):
                for column, text in enumerate(row):
                    table.cell(number, column).text = text
        else:
            slide.notes_slide.notes_text_frame.text = expected.note
    presentation.save(path)


def odfpy(path: Path, content: Content) -> None:
    """Write a text with a table."""
    names = ("opendocument", "text", "table", "dc")
    opendocument, text, table, dc = (import_module(f"odf.{name}") for name in names)
    book = content.handbook(has_note=False)
    document = opendocument.OpenDocumentText()
    document.meta.addElement(dc.Title(text=book.title))
    document.meta.addElement(dc.Creator(text=AUTHOR))
    add = document.text.addElement
    add(text.H(outlinelevel=1, text=book.payload))
    add(text.P(text=book.body))
    items = text.List()
    item = text.ListItem()
    item.addElement(text.P(text=book.item))
    items.addElement(item)
    add(items)
    cells = table.Table(name="Loads")
    cells.addElement(table.TableColumn(numbercolumnsrepeated=2))
    for row in book.table:
        line = table.TableRow()
        for each in row:
            cell = table.TableCell(valuetype="string")
            cell.addElement(text.P(text=each))
            line.addElement(cell)
        cells.addElement(line)
    add(cells)
    add(text.H(outlinelevel=1, text=book.range))
    add(text.P(text=f"{book.last}."))
    document.save(str(path))


def ebooklib(path: Path, content: Content) -> None:
    """Write a book of two chapters."""
    epub = import_module("ebooklib.epub")
    book = content.handbook(has_note=False)
    written = epub.EpubBook()
    written.set_identifier(content.name)
    written.set_title(book.title)
    written.set_language("en")
    written.add_author(AUTHOR)
    body = book.html().partition("<body>")[2].partition("</body>")[0]
    first, _, last = body.partition('<h1 style="break-before: page">')
    chapters = []
    for number, part in enumerate((first, f"<h1>{last}"), start=1):
        chapter = epub.EpubHtml(title=f"Chapter {number}", file_name=f"chapter {number}.xhtml")
        chapter.content = part
        written.add_item(chapter)
        chapters.append(chapter)
    written.toc = chapters
    written.spine = ["nav", *chapters]
    written.add_item(epub.EpubNcx())
    written.add_item(epub.EpubNav())
    epub.write_epub(str(path), written)


def reportlab(path: Path, content: Content) -> None:
    """Write a PDF of two pages with a table, without bookmarks."""
    platypus, styles = import_module("reportlab.platypus"), import_module("reportlab.lib.styles")
    book, style = content.handbook(pages=PAGES, has_sections=False), styles.getSampleStyleSheet()
    story = [
        platypus.Paragraph(book.payload, style["Heading1"]),
        platypus.Paragraph(book.body, style["BodyText"]),
        platypus.Paragraph(book.item, style["Bullet"], bulletText="•"),
        platypus.Table(book.table),
        platypus.PageBreak(),
        platypus.Paragraph(book.range, style["Heading1"]),
        platypus.Paragraph(f"{book.last}. {book.note}", style["BodyText"]),
    ]
    platypus.SimpleDocTemplate(str(path), title=book.title, author=AUTHOR).build(story)


def fpdf2(path: Path, content: Content) -> None:
    """Write a PDF of two pages with bookmarks and a table."""
    book = content.handbook(pages=PAGES)
    pdf = import_module("fpdf").FPDF()
    pdf.set_title(book.title)
    pdf.set_author(AUTHOR)
    pdf.set_font("Helvetica", size=12)
    for heading, texts in book.sections:
        pdf.add_page()
        pdf.start_section(heading)
        for text in (heading, *texts):
            pdf.multi_cell(0, 8, text, new_x="LMARGIN", new_y="NEXT")
        if heading == book.payload:
            with pdf.table() as table:
                for row in book.table:
                    table.row(row)
    pdf.output(str(path))


def weasyprint(path: Path, content: Content) -> None:
    """Print a page to PDF."""
    import_module("weasyprint").HTML(string=content.handbook(pages=PAGES).html()).write_pdf(str(path))


def chromium(path: Path, content: Content) -> None:
    """Print a page to PDF. Chromium states no author."""
    book = content.handbook(pages=PAGES, author="")
    with TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(book.html(), encoding="utf-8")
        _run(executable(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
             "--generate-pdf-document-outline", f"--user-data-dir={folder}/profile", f"--print-to-pdf={path}",
             page.as_uri())  # fmt: skip


def docutils(path: Path, content: Content) -> None:
    """Convert reStructuredText to HTML."""
    source = content.handbook().rst()
    writer = import_module("docutils.writers").get_writer_class("html5")()
    path.write_bytes(import_module("docutils.core").publish_string(source, writer=writer))


def python_email(path: Path, content: Content) -> None:
    """Write a message in Latin-1 with an attached table and an attached message of HTML."""
    author = f"{AUTHOR} <mira@example.org>"
    mail, forwarded = EmailMessage(), EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = content.title, author, "Ada <ada@example.org>"
    mail.set_content(f"{FILLER} It carries {content.word(author=author)}.\n", charset="latin-1")
    row = f"Name,Remark\nKestrel,{FILLER} Its case is {content.word('loads.csv, row 2', author=author)}\n"
    mail.add_attachment(row, subtype="csv", filename="loads.csv")
    forwarded["Subject"], forwarded["From"] = "Range in winter", "Ada <ada@example.org>"
    page = f"<p>{FILLER} In winter it flies {content.word('Range in winter', author=author)}.</p>"
    forwarded.set_content(page, subtype="html")
    mail.add_attachment(forwarded)
    path.write_bytes(bytes(mail))


PROGRAMS: tuple[tuple[Program, Make, str], ...] = (
    (Program("pandoc", "pypandoc_binary"), pandoc, "docx odt epub html pptx rtf md rst org tex adoc"),
    (Program("LibreOffice", "", OFFICE), libreoffice, "docx odt rtf pdf epub html xlsx ods csv pptx odp"),
    (Program("python-docx", "python-docx"), python_docx, "docx"),
    (Program("python-pptx", "python-pptx"), python_pptx, "pptx"),
    (Program("openpyxl", "openpyxl"), openpyxl, "xlsx"),
    (Program("XlsxWriter", "XlsxWriter"), xlsxwriter, "xlsx"),
    (Program("pandas", "pandas"), pandas_table, "csv tsv.gz json ods"),
    (Program("pandas", "pandas"), pandas_text, "jsonl html"),
    (Program("odfpy", "odfpy"), odfpy, "odt"),
    (Program("EbookLib", "EbookLib"), ebooklib, "epub"),
    (Program("ReportLab", "reportlab"), reportlab, "pdf"),
    (Program("fpdf2", "fpdf2"), fpdf2, "pdf"),
    (Program("WeasyPrint", "weasyprint"), weasyprint, "pdf"),
    (Program("Chromium", commands=CHROMIUM), chromium, "pdf"),
    (Program("Docutils", "docutils"), docutils, "html"),
    (Program("Python"), python_email, "eml"),
)
"""The programs, what makes their files, and the extensions of the files."""
