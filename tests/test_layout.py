"""How tables of text are laid out: separators, headers of numbers, wavelengths, labels,
decimal commas; and what is refused.
"""

import io

import numpy as np
import pytest

from bionica.io import InputError, open_pipe, open_reader, wavelengths_in
from bionica.io.text import judge_first_line

WAVELENGTHS = np.arange(400.0, 424.0)


def spectra(n=300, d=3, wavelengths=WAVELENGTHS):
    """Return spectra that mix three substances, in 5 digits."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.6)
    channel = np.linspace(0, 1, len(wavelengths))
    pure = np.exp(-((channel - np.linspace(0.1, 0.9, d)[:, np.newaxis]) ** 2) / 0.05)
    return np.round(S @ pure + 0.001 * rng.random((n, len(wavelengths))), 5)


def lines_of(rows, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def text(X, separator=","):
    return lines_of(
        ([repr(value) for value in row] for row in np.asarray(X).tolist()), separator
    )


@pytest.fixture
def read(tmp_path):
    """Read text from a file; return the samples and the reader."""

    def read(content, **how):
        (tmp_path / "x.csv").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        with open_reader(tmp_path / "x.csv", **how) as reader:
            return reader.read(), reader

    return read


@pytest.fixture
def refused(read):
    """Return why text is refused, in one line."""

    def refused(content, **how):
        with pytest.raises(InputError) as error:
            read(content, **how)
        assert "\n" not in str(error.value)
        return str(error.value)

    return refused


class Trickle(io.RawIOBase):
    """A stream that hands out a few bytes at a time."""

    def __init__(self, data, size):
        self.data = io.BytesIO(data.encode())
        self.size = size

    def read(self, n=-1):
        return self.data.read(self.size)


# --- separators and lines


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_any_line_end_however_the_text_is_cut(read, monkeypatch, quote, end, chunk):
    monkeypatch.setattr("bionica.io.text._CHUNK", chunk)
    X = np.arange(12.0).reshape(4, 3)
    rows = [",".join(f"{quote}{value}{quote}" for value in row) for row in X.tolist()]
    for last in ("", end):
        content = end.join(rows) + last
        assert np.array_equal(read(content)[0], X)
        assert np.array_equal(read(content, axis=1)[0], X.T)
        assert np.array_equal(open_pipe(Trickle(content, chunk)).read(), X)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2\n3,4\n5\n1,2\n3,4\n", "line 3 has 1 values where 2 are expected"),
        ("a,b\n\n1,2\n3,4,5\n1,2\n", "line 4 has 3 values where 2"),
        ("1,2\n3,x\n", "line 2, column 2: 'x'"),
        ("a,b\n1,2\n3,\n", "line 3, column 2 (b)"),
        ("a;b\n1.234,5;2\n3;4\n5;7\n", "remove the marks of thousands"),
        ("a,b\n1,2\n3,nan\n", "line 3, column 2 (b): 'nan'"),
        ("1,2\n-inf,2\n", "line 2, column 1: '-inf'"),
        ("1,2\n1e999,2\n", "line 2, column 1: '1e999'"),
        ("", "holds no sample"),
        ("a,b\n", "holds no sample"),
        ("1,2\n\0\0\n", "is not text"),
        (b"1,2\n\x81\x8d\n", "is not text"),
        ("a,b\n1,2\n".encode("utf-16-le"), "is not text"),
        ('1,2\n"' + "0" * 140_000 + '1",2\n', "line 2"),
        ('1,2\n3,"4\n5,6\n', "line 2 has a stray quote"),
    ],
)
def test_bad_text_is_named_by_line_and_column(refused, content, message):
    assert message in refused(content)
    refused(content, axis=1)


def test_stray_quotes_and_comments_hide_no_line(read, refused, rng):
    """Two stray quotes would make one cell of the lines between them; a line of # is
    data that nobody asked to drop.
    """
    rows = [",".join(map(repr, row)) for row in rng.random((20_000, 3)).tolist()]
    for spoilt, number in (('"0.1,0.2,0.3', 101), ("#0.1,0.2,0.3", 101)):
        lines = [*rows[:100], spoilt, *rows[100:9000], '0.1",0.2,0.3', *rows[9000:]]
        assert f"line {number}" in refused("\n".join(lines))
    data, reader = read("# by me\n\nname,a,b\n#1,1,2\n#2,3,4\n")
    assert data.tolist() == [[1, 2], [3, 4]]
    assert reader.label_names == ["name"]
    assert "# by me" in reader.notes[0]


def test_lines_before_the_table(read, refused):
    table = "time;A;B\n1;2;3\n2;3;4\n3;4;5\n"
    for before in (
        "Instrument: UV-Vis 3000\nOperator: me\n",
        "# me\nInstrument: UV-Vis; 3000\n\n",
        "one line\n" * 60,
    ):
        data, reader = read(before + table)
        assert data.tolist() == [[2, 3], [3, 4], [4, 5]]
        assert any("are not lines of the table" in note for note in reader.notes)
        assert (
            read(before + table, skip_lines=before.count("\n"))[0].tolist()
            == data.tolist()
        )
    data, reader = read("a,b\n\n1,2\n2,4\n\n7,3\n3,9\n\n")
    assert (len(data), reader.notes) == (
        4,
        ["it has empty lines between samples: its parts were read as one table"],
    )
    # a damaged sample is not left out
    assert "skip_lines=1" in refused("1;2\n1;2;3\n2;3;4\n")


def test_an_instrument_file_is_read_at_once(read, refused, tmp_path):
    """Windows-1252, six lines of text, decimal commas and semicolons: there is one
    consistent reading, and notes name it.
    """
    X = spectra(40)
    before = (
        "Gerät: Spektrometer\nPrüfer: Müller\nDatum: 01.02.2024 12:30\nMessung;"
        " 3\nKüvette 1 cm\n\n"
    )
    rows = [
        ["Zeit [min]", *map(str, WAVELENGTHS)],
        *([i / 4, *row] for i, row in enumerate(X.tolist())),
    ]
    content = (before + lines_of(rows, ";").replace(".", ",")).encode("cp1252")
    data, reader = read(content)
    assert np.array_equal(data, X)
    assert np.array_equal(reader.wavelengths, WAVELENGTHS)
    notes = " ".join(reader.notes)
    for word in ("Windows-1252", "lines 1 to 6", "decimal commas", "Zeit [min]"):
        assert word in notes
    assert np.array_equal(
        read(content, encoding="cp1252", decimal=",", skip_lines=6)[0], X
    )
    assert np.array_equal(read(content.decode("cp1252").encode("utf-16"))[0], X)
    assert "unknown" in refused(content, encoding="cp-1252-x")
    assert "if this line holds units, remove it" in refused("a,b\nmV,mV\n3,4\n5,7\n")
    # or thousands
    assert "pass decimal=','" in refused("a;b\n1,234;5,678\n2,345;1,234\n")
    pipe = open_pipe(
        io.BytesIO(content[content.index(b"Zeit") :].replace(b"Zeit", b"Z\xe4it"))
    )
    assert np.array_equal(pipe.read(), X)
    assert "Windows-1252" in pipe.notes[0]


def test_names_that_are_repeated_are_no_sample(read, refused):
    """Two files that were joined; and pairs of columns, each with the same wavelengths."""
    X = spectra(60)
    content = lines_of([WAVELENGTHS, *X.tolist()])
    assert "line 62 repeats the names" in refused(content + content)
    pairs = [
        ("nm", "a", "nm", "b"),
        *zip(WAVELENGTHS, X[0], WAVELENGTHS, X[1], strict=True),
    ]
    assert "column 3 repeats the names" in refused(lines_of(pairs))
    # numbers of columns may be a sample
    assert len(read("0,1\n3,4\n0,1\n", header=True)[0]) == 2


@pytest.mark.parametrize("n", [9, 60])
def test_words_beside_labels_that_are_numbers_are_named(read, n):
    """Means below a table are read as samples, with a word."""
    X = spectra(n)
    rows = [
        ["id", *WAVELENGTHS],
        *([i, *row] for i, row in enumerate(X.tolist())),
        ["Mean", *X.mean(axis=0)],
    ]
    data, reader = read(lines_of(rows))
    assert len(data) == n + 1
    assert (
        reader.notes[-1]
        == "beside labels that are numbers there are words (Mean): samples too"
    )
    assert len(read(lines_of(rows[:-1]))[1].notes) == len(reader.notes) - 1


@pytest.mark.parametrize("n", [10, 100])
def test_points_that_may_be_those_of_thousands_are_asked_about(read, refused, n):
    """Counts around 1,000, as a German program writes them; and decimals that no
    program writes so.
    """
    counts = np.r_[np.full((n, 3), 980), np.arange(990, 1017).reshape(9, 3)]
    content = "a;b;c\n" + lines_of(
        ([f"{x:,}".replace(",", ".") for x in row] for row in counts.tolist()), ";"
    )
    assert "may be 1002" in refused(content)
    assert "'1.000' is not a finite number" in refused(content, decimal=",")
    assert read(content, decimal=".")[0].min() == 1.0
    assert np.array_equal(read(content + "0.5;1;2\n")[0][-1], [0.5, 1, 2])
    table = [
        [i, f"{1 + x:.3f}", f"{2 + x:.3f}"] for i, x in enumerate(np.linspace(0, 1, n))
    ]
    assert read(lines_of([("id", "a", "b"), *table], ";"))[0].shape == (n, 2)


def test_samples_before_a_bad_line_are_handed_out(read):
    for cut in (1, 7, 1000):
        blocks = open_pipe(Trickle("1,2\n3,4\n5,x\n7,8\n", cut), header=False).blocks()
        handed_out = []
        with pytest.raises(InputError, match="line 3, column 2"):
            handed_out.extend(blocks)
        assert np.concatenate(handed_out).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("use", "skip"), [(None, "2"), ("c,1", None), (None, "b"), (None, None)]
)
def test_columns_of_a_pipe_however_it_is_cut(rng, cut, use, skip):
    X = rng.random((300, 3))
    content = "a,b,c\n" + "".join(f"{x[0]!r},what,{x[2]!r}\n" for x in X.tolist())
    reader = open_pipe(Trickle(content, cut), use=use, skip=skip)
    assert np.array_equal(reader.read(), X[:, [0, 2]])
    assert reader.column(1) == "column 3 (c)"
    assert len(reader.notes) == 1
    # written beside the sources, asked to leave it out or not
    assert reader.label_names == ["b"]


@pytest.mark.parametrize(
    ("content", "rows", "names"),
    [
        # as pandas writes it
        (",0,1\n0,0.1,0.2\n1,0.3,0.1\n", [[0.1, 0.2], [0.3, 0.1]], ["0", "1"]),
        (",400nm,401nm\n0.5,1,2\n1.0,3,4\n", [[1, 2], [3, 4]], ["400nm", "401nm"]),
        ("s1,0.2,0.5\n", [[0.2, 0.5]], ["column_2", "column_3"]),
        ("a\ufffd,b\n1,2\n", [[1, 2]], ["a\ufffd", "b"]),
    ],
)
def test_small_tables(read, content, rows, names):
    for data, reader in (
        read(content),
        ((pipe := open_pipe(Trickle(content, 7))).read(), pipe),
    ):
        assert (data.tolist(), reader.names) == (rows, names)


def test_one_column(read):
    for name in ("my signal", '"my signal"', "signal 2", "value", "time"):
        data, reader = read(f"{name}\n1\n2\n4\n")
        assert data.tolist() == [[1], [2], [4]]
        assert reader.header == [name.strip('"')]
    assert read("1,5\n2,5\n0,1\n", decimal=",")[0].tolist() == [[1.5], [2.5], [0.1]]


# --- headers of numbers


@pytest.mark.parametrize(
    "wavelengths",
    [
        WAVELENGTHS,
        WAVELENGTHS[::-1],
        np.linspace(400, 700, 24).round(1),
        1e7 / np.linspace(400, 700, 24),  # wavenumbers
        np.array(
            [412, 443, 490, 510, 560, 620, 665, 681, 709, 754, 779, 865, 885, 1020.0]
        ),
    ],
    ids=["even", "falling", "rounded", "wavenumbers", "bands"],
)
@pytest.mark.parametrize("form", ["{:.2f}", "{:.0f}"])
@pytest.mark.parametrize("corner", [None, "", "sample", "who", "RT (min)", "pH"])
def test_a_first_line_of_wavelengths_is_a_header(read, wavelengths, form, corner):
    X = spectra(wavelengths=wavelengths)
    names = [*map(form.format, wavelengths)]
    rows = X.tolist()
    if corner is not None:
        # words, or what varies as a mixture does, or a count
        label = {"who": "P{0}", "pH": "{1}"}.get(corner, "{0}")
        names = [corner, *names]
        rows = [[label.format(i, 7 + i % 3), *row] for i, row in enumerate(rows)]
    data, reader = read(lines_of([names, *rows]))
    assert np.array_equal(data, X)
    assert np.allclose(reader.wavelengths, wavelengths, atol=0.5)
    assert len(reader.notes) == 1 + (corner is not None)
    assert np.array_equal(
        open_pipe(io.BytesIO(lines_of([names, *rows]).encode())).read(), X
    )
    if corner is None:
        assert len(read(lines_of([names, *rows]), header=False)[0]) == 301


@pytest.mark.parametrize(
    "first",
    [
        "0,1",
        "400,400,410,410",
        "450,550,650",
        "450.5,550.5,650.5,750.5",
        "1,4,9,16,25",
        "a,b,2,1,3",
    ],
)
def test_a_line_that_may_be_names_or_a_sample_is_asked_for(read, refused, rng, first):
    assert "header=False" in refused(
        "400,402,404\n22,671,876\n133,744,829\n33,543,662\n"
    )
    assert "header=False" in refused("450,650\n312.0,800.0\n290.0,771.0\n")
    X = rng.random((9, first.count(",") + 1))
    assert "header=False" in refused(first + "\n" + text(X))
    data, reader = read(first + "\n" + text(X), header=True)
    assert np.array_equal(data, X)
    assert reader.names == first.split(",")
    if first[0] != "a":
        assert len(read(first + "\n" + text(X), header=False)[0]) == 10


def test_first_samples_are_seldom_taken_for_an_axis_or_asked_about():
    """Of rows in random order as they come, beside 19 others; and of rows made to fall,
    against one other.
    """
    rng = np.random.default_rng(0)
    found = {verdict: np.zeros(3) for verdict in ("names", "asked", "sample")}
    for k in range(2, 11):
        for _ in range(100):
            uniform = rng.random((20, k))
            counts = rng.poisson(20, (20, k)).astype(float)
            mixed = rng.exponential(size=(20, 3)) @ rng.random((3, k))
            for kind, X in enumerate((uniform, counts, mixed)):
                decimals = [0 if kind == 1 else 16] * 20
                found[judge_first_line(X.tolist(), decimals)][kind] += 1
                fallen = judge_first_line(
                    [np.sort(X[0])[::-1].tolist(), X[1].tolist()], decimals[:2]
                )
                found["names"][kind] += fallen == "names"
    assert (found["names"] <= [2, 12, 12]).all(), found
    assert (found["asked"] <= [12, 12, 30]).all(), found


@pytest.mark.parametrize(
    "first",
    [
        "400,400,410,410",
        "400,410,420,415",
        "5,2,4,1",
        "7.4,6.8,7.0,8.1",
        "405,488,561,640",
        "2020,2019,2021,2022",
    ],
    ids=["replicates", "overlapping detectors", "filters", "pH", "lasers", "years"],
)
@pytest.mark.parametrize("form", ["{:.6f}", "{:.1f}", "{:.0f}"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_first_line_of_numbers_is_never_a_sample_without_a_word(
    read, first, form, transposed
):
    """Numbers of any order and size: names of columns, or of rows, are read as such,
    asked for, or named in a note.
    """
    X = (
        0.3
        * np.random.default_rng(0).exponential(size=(30, 3))
        @ np.random.default_rng(1).random((3, 4))
    )
    table = [first.split(","), *([form.format(x) for x in row] for row in X.tolist())]
    table = [*zip(*table, strict=True)] if transposed else table
    pipe = open_pipe(io.BytesIO(lines_of(table).encode()))
    for opened in [lambda: read(lines_of(table))[1], lambda: (pipe.read(), pipe)[1]][
        : 1 if transposed else 2
    ]:
        try:
            notes = opened().notes
        except InputError as error:
            assert "may hold names" in str(error)
        else:
            shown = (
                f"the first {'column' if transposed else 'line'}"
                f" ({first.split(',')[0]}, "
            )
            assert any(shown in note for note in notes)


@pytest.mark.parametrize("label", ["patient", "class", "barcode", "day"])
@pytest.mark.parametrize("last", [False, True])
def test_a_column_unlike_the_others_is_named(read, refused, label, last):
    """A label under a name that says nothing is read as a mixture; mixtures alone get
    no note.
    """
    X = spectra(30)
    names = [f"A{j}" for j in range(X.shape[1])]
    rows = X.tolist()
    assert read(lines_of([names, *rows]))[1].notes == []
    values = {
        "patient": lambda i: 7 * i % 31,
        "class": lambda i: i % 3,
        "barcode": lambda i: 40012 + 7 * i % 31,
    }
    numbers = [values.get(label, lambda i: 20240101 + i)(i) for i in range(30)]
    table = [(names, label), *zip(rows, numbers, strict=True)]
    content = lines_of([*row, value] if last else [value, *row] for row, value in table)
    # the only column of equal steps, as one of wavelengths is
    if label == "day" and not last:
        assert "called 'day': pass axis=1 if it holds wavelengths" in refused(content)
        return
    data, reader = read(content)
    assert data.shape == (30, 25)
    number = 25 if last else 1
    assert reader.notes == [
        f"unlike the others, and read as a mixture: column {number} ({label}) (skip="
        " omits it)"
    ]


@pytest.mark.parametrize(
    ("corner", "names", "why"),
    [
        ("Energie / eV", ["a", "b", "c"], "is called 'Energie / eV'"),
        (None, None, "has no name"),
        (
            "Probe 1",
            ["Probe 2", "Probe 3", "Probe 4"],
            "the columns are named as samples are (Probe 2, ",
        ),
    ],
)
def test_a_table_whose_columns_may_be_the_samples_is_asked_about(
    read, refused, rng, corner, names, why
):
    X = rng.random((30, 4))
    X[:, 0] = rng.random(30) if corner == "Probe 1" else 900 - 2 * np.arange(30)
    content = lines_of([*([[corner, *names]] if names else []), *X.tolist()])
    assert why in refused(content) and "pass axis=1" in refused(content)
    assert read(content, axis=0)[0].shape == (30, 4)
    assert read(content, axis=1)[0].shape == (
        (4, 30) if corner == "Probe 1" else (3, 30)
    )


def test_wavelengths_below_names_are_no_sample_without_a_word(read):
    content = lines_of(
        [[f"A{j}" for j in range(24)], WAVELENGTHS, *spectra(30).tolist()]
    )
    data, reader = read(content)
    assert len(data) == 31
    assert reader.notes[0].startswith("the line after the names (400.0, 401.0, ")
    data, reader = read(content, skip_lines=1)  # which the note proposes
    assert len(data) == 30
    assert np.array_equal(reader.wavelengths, WAVELENGTHS)


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("label", [[], ["Probe"]])
def test_missing_cells_do_not_hide_a_line_of_wavelengths(tmp_path, rng, share, label):
    X = spectra(60)
    cells = np.where(rng.random(X.shape) < share, "", X.astype(str))
    rows = [
        [*label, *WAVELENGTHS],
        *([*(f"s{i}" for _ in label), *row] for i, row in enumerate(cells)),
    ]
    (tmp_path / "gaps.csv").write_text(lines_of(rows))
    reader = open_reader(tmp_path / "gaps.csv", missing=True)
    assert reader.read().shape == X.shape
    assert any("was read as names" in note for note in reader.notes)


@pytest.mark.parametrize(
    ("names", "axis"),
    [
        (["400", "401.5", "1e3"], [400, 401.5, 1000]),
        (["400 nm", "401.5 nm"], [400, 401.5]),
        *(
            (names.split(","), None)
            for names in ("400,420,410", "400 nm,401 eV", "0,1,2", "nan,1", "400")
        ),
    ],
)
def test_wavelengths_are_names_that_rise_or_fall(names, axis):
    values, _ = wavelengths_in(names)
    assert (None if values is None else values.tolist()) == axis


# --- samples in columns


@pytest.mark.parametrize(
    "names",
    [
        None,
        ["wavelength", *(f"s{i}" for i in range(300))],
        ["", *map(str, range(300))],
        ["nm", *map(str, range(1, 301))],
        ["", *(f"{i / 20}" for i in range(300))],
    ],
    ids=["none", "words", "numbers", "word and numbers", "times"],
)
@pytest.mark.parametrize(
    "wavelengths", [WAVELENGTHS, WAVELENGTHS[::-1], 1e7 / WAVELENGTHS]
)
def test_a_first_column_of_wavelengths_says_that_samples_are_columns(
    read, refused, names, wavelengths
):
    X = spectra()
    content = ("" if names is None else ",".join(names) + "\n") + text(
        np.column_stack([wavelengths, X.T])
    )
    named = names is not None and names[0] != ""
    if names is not None and not named:
        assert "axis=1" in refused(content)  # it may be the time of the samples
    data, reader = read(content, axis=None if named else 1)
    assert reader.axis == 1
    assert np.array_equal(data, X)
    assert np.array_equal(reader.wavelengths, wavelengths)
    assert reader.notes
    if names is not None:
        assert reader.label_names == ["sample"]
        assert reader.sample(300)[1][0].tolist() == names[1:]
    rows = "1,3" if names is None else "2,4"  # rows of the table, counted from 1
    assert np.array_equal(read(content, axis=1, use=rows)[0], X[:, [0, 2]])
    if names is None:
        assert len(read(content, axis=1, header=False)[0]) == 301


# detectors overlap in the lines that show the layout, or below
@pytest.mark.parametrize("first", [3, 15])
def test_a_first_column_named_wavelength_may_turn_back(read, first):
    wavelengths = np.array([*WAVELENGTHS[:first], *WAVELENGTHS[first - 2 :]])
    X = spectra(20, wavelengths=wavelengths)
    content = (
        "Wellenlänge;"
        + ";".join(f"P{i}" for i in range(20))
        + "\n"
        + text(np.column_stack([wavelengths, X.T]), ";")
    )
    data, reader = read(content)
    assert np.array_equal(data, X)
    assert reader.names == [*map(str, wavelengths)]


def test_names_above_samples_in_columns_are_their_labels(read, refused):
    data, reader = read("a,b,c\n1,2,3\n4,5,6\n", axis=1)
    assert data.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert reader.label_names == ["sample"]
    assert reader.sample(9)[1][0].tolist() == ["a", "b", "c"]
    assert (
        "row 1 (names)"
        in read("1,2,3\n6,5,4\n6,8,7\n", axis=1, header=True)[1].notes[-1]
    )
    for first in ("nm", "channel"):
        assert read(f"{first},a,b\nred,1,2\ngreen,3,4\n")[0].tolist() == [
            [1, 3],
            [2, 4],
        ]
    assert "between tabs" in refused("a:b\n1:2\n3:4\n")
    data, reader = read("nm,a,b\npH,7,8\n400,1,2\n402,3,4\n404,5,6\n")
    assert data.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert reader.label_names == ["sample", "pH"]


# --- labels


@pytest.mark.parametrize(
    "name",
    [
        "time",
        "Time (s)",
        "time/min",
        "Zeit [min]",
        "time_min",
        "index",
        "Sample",
        "date",
        "",
        "Unnamed: 0",
        "nm",
        "t/s",
        "RT (min)",
        "RT",
        "Retention time [min]",
        "elapsed_time",
        "Wavenumber cm-1",
        "λ (nm)",
        "cm⁻¹",
    ],
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_a_column_is_left_out_by_its_name(read, name, decimal):
    X = spectra()[:, :3]
    rows = [
        ["a", name, "b", "c"],
        *([row[0], i / 4, *row[1:]] for i, row in enumerate(X.tolist())),
    ]
    data, reader = read(lines_of(rows, ";").replace(".", decimal), decimal=decimal)
    assert np.array_equal(data, X)
    assert len(reader.notes) == 1
    assert reader.names == ["a", "b", "c"]
    assert next(reader.labelled_blocks())[1][0].tolist() == [
        str(i / 4) for i in range(300)
    ]
    assert read(lines_of(rows, ";").replace(".", decimal), decimal=decimal, use="1-4")[
        0
    ].shape == (300, 4)


@pytest.mark.parametrize("name", ["NO", "index", "RT", "id", "nm", "label", "Sample"])
@pytest.mark.parametrize("first", ["a", "0"])
@pytest.mark.parametrize("cut", [7, 100_000])
def test_a_column_that_varies_as_a_mixture_is_one_whatever_its_name(
    read, name, first, cut
):
    """Its name alone decides nothing, and a note says how to leave it out."""
    X = spectra()[:40, :4]
    names = [first, name, "b", "c"] if first == "a" else ["0", name, "1", "2"]
    content = lines_of([names, *X.tolist()])
    for data, reader in (
        read(content),
        ((pipe := open_pipe(Trickle(content, cut))).read(), pipe),
    ):
        assert np.array_equal(data, X)
        assert (reader.names, reader.label_names) == (names, [])
        assert f"column 2 ({name}) (skip=" in reader.notes[-1]
    data, reader = read(content, skip=name)
    assert np.array_equal(data, X[:, [0, 2, 3]])
    assert len(reader.notes) == (first == "0")  # that the first line was read as names


@pytest.mark.parametrize(
    "values",
    [[0, 1, 2, 3, 4, 5, 6], [9, 9, 7, 7, 5, 5, 5], [3] * 7, ["a", "b"] * 3 + ["c"]],
)
def test_a_label_rises_or_falls_or_is_text(read, values):
    rows = [
        ["NO", "a", "b"],
        *([value, i % 3, i % 2] for i, value in enumerate(values)),
    ]
    for reader in (read(lines_of(rows))[1], open_pipe(Trickle(lines_of(rows), 9))):
        reader.read()
        assert (reader.names, reader.label_names) == (["a", "b"], ["NO"])
        assert "column 1" in reader.notes[0]


@pytest.mark.parametrize(
    "header",
    [
        "Wavelength 400,Wavelength 410,C",
        "row 1,row 2,row 3",
        "Date fruit,Apple,Pear",
        "2_1,1_2,3_4",
        "R,S,T",
    ],
)
def test_names_that_begin_like_labels_are_mixtures(read, rng, header):
    data, reader = read(header + "\n" + text(rng.random((30, 3))))
    assert data.shape == (30, 3)
    assert reader.names == header.split(",")


@pytest.mark.parametrize("first", ["", "side,when,well,a,b\n"])
@pytest.mark.parametrize("cut", [1, 100_000])
def test_columns_of_text_are_labels(read, first, cut):
    """The letter E is one, although numbers have an e too."""
    cells = (
        f"{'NESW'[i % 4]},12:{i:02},{'EABCDFGH'[i % 8]}{i % 12},{i % 5},{i % 3}\n"
        for i in range(40)
    )
    content = first + "".join(cells)
    for data, reader in (
        read(content),
        ((pipe := open_pipe(Trickle(content, cut))).read(), pipe),
    ):
        assert data.tolist() == [[i % 5, i % 3] for i in range(40)]
        assert len(reader.notes) == 1 + (not first)
        assert reader.columns == [3, 4]


@pytest.mark.parametrize(
    "cell",
    [
        "n/a",
        "",
        "1,234",
        "nan",
        "<0.1",
        "$10",
        "10%",
        "1.234,5",
        "1 000",
        "<1e-5",
        "~1E3",
    ],
)
def test_a_damaged_number_is_no_label(refused, cell):
    assert "line 2, column 2 (b)" in refused(f"a;b;c\n1;{cell};2\n2;{cell};4\n")
    assert "line 2, column 2 (b)" in refused(f"a;b;c\n1;{cell};2\n2;{cell};4\n3;4;5\n")


# --- decimal commas


@pytest.mark.parametrize("separator", [";", "\t", " ", "|"])
def test_decimal_commas(read, refused, monkeypatch, separator):
    monkeypatch.setattr("bionica.io.text._CHUNK", 5000)
    X = spectra()
    content = (
        separator.join(map(str, WAVELENGTHS)) + "\n" + text(X, separator)
    ).replace(".", ",")
    assert np.array_equal(
        open_pipe(io.BytesIO(content.encode()), decimal=",").read(), X
    )
    for form in ({}, {"decimal": ","}):
        data, reader = read(content, **form)
        assert np.array_equal(data, X)
        assert np.array_equal(reader.wavelengths, WAVELENGTHS)
        assert reader.decimal == ","
        assert any("decimal commas" in note for note in reader.notes) == (not form)


def test_with_a_decimal_comma_a_point_is_refused(read, refused):
    for header in ("Zeit [min];A;B", "Zeit [min];400;410"):
        assert read(header + "\n0,0;0,5;1,2\n0,5;0,4;1,3\n")[0].tolist() == [
            [0.5, 1.2],
            [0.4, 1.3],
        ]
    assert "pass decimal=','" in refused("a;b\n0,5;<1\n0,7;2,5\n")
    assert "line 2, column 2 (b): '1.234'" in refused(
        "a;b\n0,5;1.234\n0,7;2.345\n", decimal=","
    )
