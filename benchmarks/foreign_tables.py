"""Libraries other than askance that write tables."""

from datetime import date
from importlib import import_module
from pathlib import Path

from benchmarks.foreign_content import AUTHOR, FILLER, HEADER, PRICES, Content


def openpyxl(path: Path, content: Content) -> None:
    """Write a workbook of two sheets with a date."""
    library = import_module("openpyxl")
    workbook = library.Workbook()
    workbook.properties.title, workbook.properties.creator = content.title, AUTHOR
    models, prices = workbook.active, workbook.create_sheet("Prices")
    models.title = "Models"
    for row in (HEADER, *content.table(sheet="Models", author=AUTHOR)):
        models.append(row)
    prices.append(PRICES)
    article, price, since = content.prices(content.title, AUTHOR)
    prices.append((article, price, date.fromisoformat(since)))
    workbook.save(path)


def xlsxwriter(path: Path, content: Content) -> None:
    """Write a workbook of one sheet with text in two fonts and a formula with its value."""
    with import_module("xlsxwriter").Workbook(str(path)) as workbook:
        workbook.set_properties({"title": content.title, "author": AUTHOR})
        sheet, bold = workbook.add_worksheet(), workbook.add_format({"bold": True})
        sheet.write_row(0, 0, HEADER)
        for number, (name, load, remark) in enumerate(content.table(author=AUTHOR), start=1):
            sheet.write(number, 0, name)
            sheet.write_formula(number, 1, f"={load}*1", None, load)
            sheet.write_rich_string(number, 2, bold, remark[:40], remark[40:])


def pandas_table(path: Path, content: Content) -> None:
    """Write a table in the format of the file's extensions, .csv as German spreadsheet programs do."""
    suffixes = "".join(path.suffixes)
    table = content.table(first_row=1 if suffixes == ".json" else 2)
    frame = import_module("pandas").DataFrame(table, columns=HEADER)
    match suffixes:
        case ".csv":
            frame.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
        case ".tsv.gz":
            frame.to_csv(path, index=False, sep="\t")
        case ".json":
            frame.to_json(path, orient="records")
        case ".ods":
            frame.to_excel(path, index=False, engine="odf")


def pandas_text(path: Path, content: Content) -> None:
    """Write JSON Lines with a title and a text, or a table as HTML without a title."""
    frame = import_module("pandas").DataFrame
    if path.suffix == ".html":
        rows = [(model, content.word(title=path.stem, author="")) for model in ("A1", "B2")]
        frame(rows, columns=("Model", "Remark")).to_html(path, index=False)
    else:
        texts = [f"{FILLER} It is {content.word(author='')}."]
        frame({"title": content.title, "text": texts, "year": 2021}).to_json(
            path, orient="records", lines=True
        )
