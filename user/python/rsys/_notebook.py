"""`%load_ext rsys` and `%%rsys`: profiles a cell of IPython or Jupyter, and shows where its time went below it."""

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import display

from ._profile import profile
from ._run import Error


def load(shell):
    """Adds `%%rsys` to a shell."""
    shell.register_magics(_Rsys)


@magics_class
class _Rsys(Magics):
    @cell_magic
    def rsys(self, line, cell):
        """Profiles this cell: %%rsys [-o FOLDER] [options of rsys-sample]

        Below its output stand a table and a flame graph of where its time went. `rsys.last()` is the profile: `.dir`, `.summary()`, `.read()`.
        `-f 100` samples less often, `--realtime` also records what threads wait for.
        """
        try:
            run = profile(line)
            run.__enter__()
        except Error as error:
            raise UsageError(str(error)) from None
        try:
            result = self.shell.run_cell(cell)
        finally:
            run.__exit__()
        display(run)
        failure = result.error_before_exec or result.error_in_exec
        if failure is not None:
            raise _Failed("the cell ended with %s: see above" % type(failure).__name__)


class _Failed(Exception):
    """A cell failed: what it failed with is shown already, and the cells behind it do not run."""

    def _render_traceback_(self):
        return [str(self)]
