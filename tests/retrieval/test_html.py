"""Web pages: what a person sees is kept, navigation is left out, and no page takes long."""

import time

import pytest

from askance.retrieval.index.formats import read_file

LONG = "<p>The log of the harbour office has been kept since the spring, and it is open to all visitors.</p>"


@pytest.fixture
def read(tmp_path):
    def read_page(page):
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        (row,) = read_file(tmp_path / "page.html")
        return row

    return read_page


@pytest.mark.parametrize(
    ("block", "lines"),
    [
        ("<p>Monday: closed<br>Saturday: ten to five</p>", ["Monday: closed", "Saturday: ten to five"]),
        ("<pre>\nMarch 3: <b>slate</b>\n   March 9: sold\n</pre>", ["March 3: slate", "   March 9: sold"]),
        ("<blockquote>The keel came<br>from Riga.</blockquote>", ["The keel came", "from Riga."]),
        ("<ul><li>slate<li><a href='/tar'>tar</a></ul>", ["slate", "tar"]),
        ("<ol><li><a href='/a'>The keel</a></li></ol>", ["The keel"]),
        ("<dl><dt>Barge<dd>A flat boat.</dl>", ["Barge", "A flat boat."]),
        ("<table><caption>Tolls</caption><tr><td>Riga<td>4</table>", ["Tolls", "Riga | 4"]),
        ("<figure><img src=a.png><figcaption>The lock.</figcaption></figure>", ["The lock."]),
        ("<footer><p>Reviewed by Odile Marchetti.</p></footer>", ["Reviewed by Odile Marchetti."]),
        ("<footer>Write to <a href='mailto:a@b.org'>a@b.org</a></footer>", ["Write to a@b.org"]),
        ("<aside class='footnote'><a href='#r'>[1]</a> Sold in March.</aside>", ["[1] Sold in March."]),
        ("<aside>Ferries sail on Sundays.</aside>", ["Ferries sail on Sundays."]),
        ("<address>14 Tollgate Lane</address>", ["14 Tollgate Lane"]),
        ("<details><summary>More</summary>It leaks.</details>", ["More", "It leaks."]),
        ("<div class='menu'><p>Soup of the day, 4 crowns</p></div>", ["Soup of the day, 4 crowns"]),
        ("Loose text", ["Loose text"]),
        ("<p>zw<x>ei</x> <ruby>漢<rt>かん</rt></ruby>", ["zwei 漢かん"]),
        ("<p>10<sup>5</sup> m<sup>2</sup> of H<sub>2</sub>O, 1<sup>st</sup>", ["10⁵ m² of H₂O, 1st"]),
    ],
)
def test_the_first_and_the_last_block_of_a_page_are_kept(read, block, lines):
    for page in (f"<body>{LONG}{block}", f"<body>{block}{LONG}", f"<main>{block}</main>{LONG}"):
        text = read(page).text
        found = [
            line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("The log")
        ]
        assert [line.strip() for line in found] == [line.strip() for line in lines]


@pytest.mark.parametrize(
    "navigation",
    [
        "<nav><h2>Menu</h2><a href='/'>Home</a> and more</nav>",
        "<div role='navigation'>Home</div>",
        "<header><a href='/'>Home</a> | <a href='/b'>Boats</a></header>",
        "<footer><ul><li><a href='/i'>Imprint</a><li><a href='/p'>Privacy</a></ul></footer>",
        "<div class='top-menu'><ul><li><a href='/i'>Imprint</a></ul></div>",
        "<table id='navbar'><tr><td><a href='/'>Home</a><td><a href='/b'>Boats</a></table>",
        "<div id='cookie-banner'>We use cookies. <button>Accept</button></div>",
        "<a class='headerlink' href='#top'>¶</a>",
    ],
)
def test_navigation_is_left_out(read, navigation):
    for page in (f"<body>{LONG}{navigation}", f"<body>{navigation}{LONG}"):
        assert read(page).text == LONG[3:-4]


def test_a_page_of_nothing_but_navigation_or_with_navigation_that_never_ends_is_kept(read):
    assert read("<nav><a href='/'>Home</a></nav>").text == "Home"
    assert read(f"<h1>Log</h1><nav><a href='/'>Home</a><div>{LONG}").text.endswith("all visitors.")


def test_a_page_has_a_title_an_author_and_sections(read):
    names = '<meta name=author content="Ada"><meta property="og:title" content="Locks">'
    head = f"<head>{names}<title>Locks | Site</title></head>"
    row = read(f"{head}<header><h1>Log</h1></header>{LONG}<h2>Tolls</h2>{LONG}")
    assert (row.title, row.fields) == ("Locks", {"author": "Ada"})
    assert [mark.section for mark in row.marks] == ["Log", "Tolls"]


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (
            "<tr><th><th>Spring<th>Summer<tr><th>Dvina<td>410<td>455",
            [" | Spring | Summer", "Dvina | 410 | 455"],
        ),
        ("<tr><td>Vilna<td></td><td>120", ["Vilna |  | 120"]),
        ("<tr><th colspan=2>Load<th>Age<tr><td>1<td>2<td>3", ["Load | Load | Age", "1 | 2 | 3"]),
        ("<tr><td rowspan=2>Riga<td>1<tr><td>2<tr><td>Bonn<td>3", ["Riga | 1", "Riga | 2", "Bonn | 3"]),
        ("<tr><td>1<td rowspan=2>Riga<td>3<tr><td>4<td>6", ["1 | Riga | 3", "4 | Riga | 6"]),
        ("<tr><td colspan=99>All tolls<tr><td>1<td>2", ["All tolls", "1 | 2"]),
        ("<tr><td>a<table><tr><td>b<td>c</table><td>d", ["a", "b | c", "d"]),
    ],
)
def test_the_columns_of_a_table_stay_and_cells_that_span_several_are_repeated(read, table, rows):
    assert read(f"{LONG}<table>{table}</table>").text.splitlines()[1:] == rows


@pytest.mark.parametrize(
    "page",
    [
        "<p " + " ".join(f"a{number}=1" for number in range(100_000)) + ">one",
        "<p>one" + "<a href=x>" * 50_000,
        "<div>" * 50_000 + "one",
        "<nav><div class=menu>" * 20_000 + "</div></nav>" * 20_000 + "one",
        "<table><tr><td>" * 20_000 + "one",
        "<table><tr>" + "<td rowspan=65534></td>" * 10_000 + "<tr><td>one" * 10_000,
        "<table>" + ("<tr>" + "<td colspan=1000>one" * 1_000) * 10,
    ],
)
def test_a_page_takes_no_more_time_than_its_length(read, page):
    started = time.process_time()
    assert "one" in read(page).text
    assert time.process_time() - started < 10
