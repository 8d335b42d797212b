"""The records of traces as tables, for pandas, polars and Arrow: what `rsys-report query` and the questions of rsys-report answer."""

import functools
import html
import importlib
import itertools
import json
import os

from ._run import Error, report_json, report_lines

_ROWS_SHOWN = 20
_ROWS_AT_ONCE = 1000


def read(*paths):
    """Traces to ask: folders of rsys-sample, or files that rsys-report reads. Nothing is read before something is asked."""
    paths = [os.path.abspath(os.fspath(path)) for path in paths]
    if not paths:
        raise TypeError("read() needs a folder with traces, or a trace")
    for path in paths:
        # A path that is wrong is told at once.
        os.stat(path)
    return Traces(paths)


@functools.lru_cache(maxsize=None)
def _catalog():
    """The tables that there are: of each its columns with their types of SQL, in order."""
    tables = report_json(["query", "--tables", "--json"])["tables"]
    return {table["name"]: {one["name"]: one["type"] for one in table["columns"]} for table in tables}


class Traces:
    """Traces that can be asked: `traces.operations` and the like are tables, `query` asks SQL, `ask` a question of rsys-report."""

    def __init__(self, paths):
        self._paths = paths

    def __repr__(self):
        return "rsys.read(%s)" % ", ".join(map(repr, self._paths))

    @property
    def tables(self):
        """The names of the tables: docs/query.md says what is in each."""
        return list(_catalog())

    def __getitem__(self, name):
        """The table of this name."""
        if name not in _catalog():
            raise KeyError("%s is not a table; there are %s" % (name, ", ".join(_catalog())))
        return Table(self._paths, "select * from %s" % name, _catalog()[name])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __dir__(self):
        return list(super().__dir__()) + self.tables

    def query(self, sql):
        """The rows of a query (SQL of SQLite) over the tables."""
        return Table(self._paths, sql, {})

    def ask(self, question, *options):
        """The answer to a question of rsys-report, such as "gaps" or "kernels", with its options: the object that --json prints."""
        return report_json([question, "--json", *options, "--", *self._paths])

    def summary(self):
        """Where the time went, as text: the first lines of all questions."""
        return b"".join(report_lines(["summary", "--", *self._paths])).decode()


class Table:
    """Rows of a table or query. They are read when they are first needed, by rsys-report, and kept.

    Whole numbers have 64 bits, and what the trace does not tell is missing, not 0: `None` in rows, null in polars and Arrow, `<NA>` or NaN in
    pandas.
    """

    def __init__(self, paths, sql, types):
        self._paths = paths
        self._sql = sql
        self._types = types
        self._kept = None

    def __iter__(self):
        """The rows, each a dict, one after the other: nothing is kept, so that there may be more than memory holds."""
        _, rows = self._streamed()
        yield from rows

    def __len__(self):
        return len(next(iter(self._columns().values()), []))

    @property
    def columns(self):
        """The names of the columns."""
        return list(self._columns())

    def rows(self):
        """All rows, each a dict."""
        columns = self._columns()
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def pandas(self):
        """A DataFrame of pandas: whole numbers are int64, or Int64 where some are missing; texts are objects."""
        pandas, numpy = _needed("pandas"), _needed("numpy")

        def series(kind, values):
            if kind == "INTEGER" and None in values:
                missing = numpy.array([value is None for value in values])
                known = numpy.array([0 if value is None else value for value in values], dtype="int64")
                return pandas.Series(pandas.arrays.IntegerArray(known, missing))
            return pandas.Series(values, dtype={"INTEGER": "int64", "REAL": "float64"}.get(kind, "object"))

        return pandas.DataFrame({name: series(*typed) for name, typed in self._typed().items()})

    def polars(self):
        """A DataFrame of polars."""
        polars = _needed("polars")
        kinds = {"INTEGER": polars.Int64, "REAL": polars.Float64, "TEXT": polars.Utf8, None: polars.Null}
        typed = self._typed().items()
        return polars.DataFrame([polars.Series(name, values, dtype=kinds[kind]) for name, (kind, values) in typed])

    def arrow(self):
        """A Table of pyarrow."""
        arrow = _needed("pyarrow")
        kinds = {"INTEGER": arrow.int64(), "REAL": arrow.float64(), "TEXT": arrow.string(), None: arrow.null()}
        typed = self._typed()
        arrays = [arrow.array(values, type=kinds[kind]) for kind, values in typed.values()]
        return arrow.Table.from_arrays(arrays, names=list(typed))

    def __repr__(self):
        return "rsys table (%s): .rows(), .pandas(), .polars(), .arrow()" % self._sql

    def _repr_html_(self):
        names, rows = self._streamed(_ROWS_SHOWN + 1)
        lines = [[row[name] for name in names] for row in rows]
        cells = ["".join("<td>%s</td>" % ("" if value is None else html.escape(str(value))) for value in line) for line in lines]
        more = "<p>… more: .rows(), .pandas(), .polars(), .arrow()</p>" if len(cells) > _ROWS_SHOWN else ""
        head = "".join("<th>%s</th>" % html.escape(name) for name in names)
        body = "".join("<tr>%s</tr>" % line for line in cells[:_ROWS_SHOWN])
        return "<table><tr>%s</tr>%s</table>%s" % (head, body, more)

    def _streamed(self, limit=None):
        """The names of the columns, and the rows as rsys-report writes them."""
        first, *others = self._paths
        words = ["query", "--json"] + [word for path in others for word in ("--with", path)]
        words += [] if limit is None else ["--limit", str(limit)]
        lines = report_lines(words + ["--", first, self._sql])
        # JSON has each row on a line of its own (docs/query.md), behind one with the names.
        for line in lines:
            if line.startswith(b'  "columns": '):
                return json.loads(line.partition(b":")[2].rstrip(b",\n")), _parsed(lines)
        raise Error("rsys-report told no columns of: %s" % self._sql)

    def _columns(self):
        if self._kept is None:
            names, rows = self._streamed()
            columns = {name: [] for name in names}
            while True:
                some = list(itertools.islice(rows, _ROWS_AT_ONCE))
                if not some:
                    break
                for name, values in columns.items():
                    values += [row[name] for row in some]
            self._kept = columns
        return self._kept

    def _typed(self):
        """Of each column the type, `None` where a query gave no value, and the values as they have to be for it."""
        return {name: _fitting(self._types.get(name), values) for name, values in self._columns().items()}


def _parsed(lines):
    """The rows in lines of JSON; of many lines at once, which is twice as fast."""
    rows = (line.rstrip(b",\n") for line in lines if line.startswith(b"    {"))
    while True:
        some = list(itertools.islice(rows, _ROWS_AT_ONCE))
        if not some:
            return
        yield from json.loads(b"[" + b",".join(some) + b"]")


def _fitting(kind, values):
    """SQLite has a type for each value, not for a column: the smallest one that holds all of a column."""
    if kind is None:
        found = {type(value) for value in values} - {type(None)}
        kind = {(): None, ("int",): "INTEGER", ("float",): "REAL", ("float", "int"): "REAL"}.get(
            tuple(sorted(one.__name__ for one in found)), "TEXT"
        )
    if kind == "INTEGER" or kind is None:
        return kind, values
    convert = float if kind == "REAL" else str
    return kind, [None if value is None else convert(value) for value in values]


def _needed(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError("this needs %s: pip install %s. Without it, .rows() has the same rows" % (name, name)) from None
