"""How tables of text are laid out: separators, headers of numbers, wavelengths, labels,
decimal commas; and what is refused.
"""

import io

import numpy as np
import pytest

from bionica.io import InputError, open_pipe, open_reader

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


def piped(content, cut=1000, **how):
    """Read text from a pipe; return the samples and the reader."""
    reader = open_pipe(Trickle(content, cut), **how)
    return reader.read(), reader


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
        assert np.array_equal(piped(content, chunk)[0], X)


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
    assert len(data) == 4
    assert "its parts were read as one table" in reader.notes[0]
    # a damaged sample is not left out
    assert "skip_lines=1" in refused("1;2\n1;2;3\n2;3;4\n")


def test_an_instrument_file_is_read_at_once(read, refused, tmp_path):
    """Windows-1252, six lines of text, decimal commas and semicolons: there is one
    consistent reading, and notes name it.
    """
    X = spectra(40)
    before = "Gerät: Spektrometer\nPrüfer: Müller\nDatum: 01.02.2024 12:30\n"
    before += "Messung; 3\nKüvette 1 cm\n\n"
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
    given = {"encoding": "cp1252", "decimal": ",", "skip_lines": 6}
    assert np.array_equal(read(content, **given)[0], X)
    assert np.array_equal(read(content.decode("cp1252").encode("utf-16"))[0], X)
    assert "unknown" in refused(content, encoding="cp-1252-x")
    assert "if this line holds units, remove it" in refused("a,b\nmV,mV\n3,4\n5,7\n")
    # or thousands
    assert "pass decimal=','" in refused("a;b\n1,234;5,678\n2,345;1,234\n")


def test_names_that_are_repeated_are_no_sample(read, refused):
    """Two files that were joined; and pairs of columns with the same wavelengths."""
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
    table = [[i, f"{1 + i / n:.3f}", f"{2 + i / n:.3f}"] for i in range(n)]
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
    data, reader = piped(content, cut, use=use, skip=skip)
    assert np.array_equal(data, X[:, [0, 2]])
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
    for data, reader in (read(content), piped(content, 7)):
        assert data.tolist() == rows
        assert reader.names == names


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
        np.array([412, 443, 490, 510, 560, 620, 665, 681, 709, 754, 779, 865, 885]),
    ],
    ids=["even", "falling", "rounded", "wavenumbers", "bands"],
)
@pytest.mark.parametrize("form", ["{:.2f}", "{:.0f}"])
@pytest.mark.parametrize(
    ("corner", "label"),
    # words, or what varies as a mixture does, or a count
    [
        ([], ""),
        (["who"], "P{0}"),
        (["pH"], "{1}"),
        ([""], "{0}"),
        (["RT (min)"], "{0}"),
    ],
)
def test_a_first_line_of_wavelengths_is_a_header(
    read, wavelengths, form, corner, label
):
    X = spectra(wavelengths=wavelengths)
    rows = [
        [*(label.format(i, 7 + i % 3) for _ in corner), *row]
        for i, row in enumerate(X.tolist())
    ]
    content = lines_of([[*corner, *map(form.format, wavelengths)], *rows])
    data, reader = read(content)
    assert np.array_equal(data, X)
    assert np.allclose(reader.wavelengths, wavelengths, atol=0.5)
    assert len(reader.notes) == 1 + len(corner)
    assert np.array_equal(piped(content)[0], X)
    if not corner:
        assert len(read(content, header=False)[0]) == 301


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


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("patient", lambda i: 7 * i % 31),
        ("class", lambda i: i % 3),
        ("barcode", lambda i: 40012 + 7 * i % 31),
    ],
)
def test_a_column_unlike_the_others_is_named(read, label, value):
    """A label under a name that says nothing is read as a mixture; mixtures alone get
    no note.
    """
    X = spectra(30)
    names = [f"A{j}" for j in range(X.shape[1])]
    rows = X.tolist()
    assert read(lines_of([names, *rows]))[1].notes == []
    rows = [[value(i), *row] for i, row in enumerate(rows)]
    data, reader = read(lines_of([[label, *names], *rows]))
    assert data.shape == (30, 25)
    assert reader.notes == [
        f"unlike the others, and read as a mixture: column 1 ({label}) (skip= omits it)"
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
    assert why in refused(content)
    assert "pass axis=1" in refused(content)
    assert read(content, axis=0)[0].shape == (30, 4)
    assert len(read(content, axis=1)[0]) == (4 if corner == "Probe 1" else 3)


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


# --- samples in columns


@pytest.mark.parametrize(
    "wavelengths", [WAVELENGTHS, WAVELENGTHS[::-1], 1e7 / WAVELENGTHS]
)
@pytest.mark.parametrize(
    "names",
    [
        ["wavelength", *(f"s{i}" for i in range(300))],
        ["nm", *map(str, range(1, 301))],
        ["", *map(str, range(300))],
        ["", *(f"{i / 20}" for i in range(300))],
    ],
    ids=["words", "word and numbers", "numbers", "times"],
)
def test_a_first_column_of_wavelengths_says_that_samples_are_columns(
    read, refused, names, wavelengths
):
    X = spectra()
    table = np.column_stack([wavelengths, X.T])
    content = ",".join(names) + "\n" + text(table)
    if not names[0]:
        assert "axis=1" in refused(content)  # it may be the time of the samples
    data, reader = read(content, axis=None if names[0] else 1)
    assert reader.axis == 1
    assert np.array_equal(data, X)
    assert np.array_equal(reader.wavelengths, wavelengths)
    assert reader.notes
    assert reader.label_names == ["sample"]
    assert reader.sample(300)[1][0].tolist() == names[1:]
    # rows of the table, counted from 1
    rows = read(content, axis=1, use="2,4")[0]
    assert np.array_equal(rows, X[:, [0, 2]])


def test_a_table_of_numbers_alone_has_samples_in_columns_if_asked(read):
    X = spectra()
    content = text(np.column_stack([WAVELENGTHS, X.T]))
    assert np.array_equal(read(content, axis=1)[0], X)
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
    content = lines_of(rows, ";").replace(".", decimal)
    data, reader = read(content, decimal=decimal)
    assert np.array_equal(data, X)
    assert len(reader.notes) == 1
    assert reader.names == ["a", "b", "c"]
    labels = next(reader.labelled_blocks())[1][0]
    assert labels.tolist() == [str(i / 4) for i in range(300)]
    every = read(content, decimal=decimal, use="1-4")[0]
    assert every.shape == (300, 4)


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
    for data, reader in (read(content), piped(content, cut)):
        assert np.array_equal(data, X)
        assert reader.names == names
        assert reader.label_names == []
        assert f"column 2 ({name}) (skip=" in reader.notes[-1]
    data, reader = read(content, skip=name)
    assert np.array_equal(data, X[:, [0, 2, 3]])


@pytest.mark.parametrize(
    "values",
    [[0, 1, 2, 3, 4, 5, 6], [9, 9, 7, 7, 5, 5, 5], [3] * 7, ["a", "b"] * 3 + ["c"]],
)
def test_a_label_rises_or_falls_or_is_text(read, values):
    rows = [
        ["NO", "a", "b"],
        *([value, i % 3, i % 2] for i, value in enumerate(values)),
    ]
    content = lines_of(rows)
    for _, reader in (read(content), piped(content, 9)):
        assert reader.names == ["a", "b"]
        assert reader.label_names == ["NO"]
        assert "column 1" in reader.notes[0]


@pytest.mark.parametrize("first", ["", "side,when,well,a,b\n"])
@pytest.mark.parametrize("cut", [1, 100_000])
def test_columns_of_text_are_labels(read, first, cut):
    """The letter E is one, although numbers have an e too."""
    cells = (
        f"{'NESW'[i % 4]},12:{i:02},{'EABCDFGH'[i % 8]}{i % 12},{i % 5},{i % 3}\n"
        for i in range(40)
    )
    content = first + "".join(cells)
    for data, reader in (read(content), piped(content, cut)):
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
    assert np.array_equal(piped(content, decimal=",")[0], X)
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
