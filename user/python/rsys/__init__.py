"""What a program says of itself, for the trace that rsys-sample writes.

    import rsys

    with rsys.range("step", n=3):        # a region of this thread, with values
        ...

    @rsys.range("load")                  # each call is a region
    def load(): ...

    rsys.mark("checkpoint", path=path)   # a point in time
    rsys.counter("queue length", 17)     # a value over time
    rsys.pause(); rsys.resume()          # nothing is collected in between

Without rsys-sample nothing is recorded, and nothing is needed.

These need the programs of an installation beside them:

    with rsys.profile() as run: ...      # records this part of the program; run.summary() has the table
    rsys.read("rsys-train-output/latest").operations.pandas()   # the records of traces, as frames
    %load_ext rsys                       # in IPython and Jupyter: `%%rsys` profiles a cell
"""

import ctypes as _ctypes
import functools as _functools
import importlib as _importlib

__all__ = ["range", "mark", "progress", "counter", "pause", "resume", "name_thread", "is_recording"]

# Parts that programs with regions alone do not load.
_PARTS = {"profile": "._profile", "last": "._profile", "read": "._tables", "Error": "._run"}


class _Value(_ctypes.Structure):
    # struct rsys_value of rsys.h; the value is one word, whatever it is.
    _fields_ = [("name", _ctypes.c_char_p), ("kind", _ctypes.c_uint64), ("value", _ctypes.c_uint64)]


def _function(name, result, *arguments):
    try:
        # Functions of the process itself, called without giving the interpreter's lock up.
        function = getattr(_ctypes.PyDLL(None), "rsys_agent_" + name)
    except (AttributeError, OSError):
        return None
    function.restype = result
    function.argtypes = arguments
    return function


_with_values = (_ctypes.c_char_p, _ctypes.c_void_p, _ctypes.c_size_t)
_push = _function("push", None, *_with_values)
_pop = _function("pop", None)
_mark = _function("mark", None, *_with_values)
_counter = _function("counter", None, _ctypes.c_char_p, _ctypes.c_double)
_pause = _function("pause", None)
_resume = _function("resume", None)
_name_thread = _function("name_thread", None, _ctypes.c_char_p)
_is_recording = _function("is_recording", _ctypes.c_int)


def _bytes(text):
    return str(text).encode("utf-8", "replace").replace(b"\0", b" ")


def _call(function, name, values):
    if not values:
        function(_bytes(name), None, 0)
        return
    # What the texts stand in lives until the call is over.
    kept = []
    array = (_Value * len(values))()
    for place, (key, value) in zip(array, values.items()):
        place.name = key.encode()
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            place.kind, place.value = 1, value & (2**64 - 1)
        elif isinstance(value, float):
            place.kind, place.value = 3, _ctypes.c_uint64.from_buffer(_ctypes.c_double(value)).value
        else:
            text = _ctypes.create_string_buffer(_bytes(value))
            kept.append(text)
            place.kind, place.value = 4, _ctypes.addressof(text)
    function(_bytes(name), array, len(values))


class range:
    """A region of the calling thread: for a `with`, or as a decorator. The values stand beside its name."""

    __slots__ = ("_name", "_arguments")

    def __init__(self, name, **values):
        self._name, self._arguments = name, values

    def __enter__(self):
        if _push is not None:
            _call(_push, self._name, self._arguments)
        return self

    def __exit__(self, *_):
        if _pop is not None:
            _pop()
        return False

    def __call__(self, function):
        if _push is None:
            return function

        @_functools.wraps(function)
        def within(*arguments, **named):
            with self:
                return function(*arguments, **named)

        return within


def mark(name, **values):
    """A point in time."""
    if _mark is not None:
        _call(_mark, name, values)


def progress(name="progress"):
    """A point in time at which something is done."""
    mark(name)


def counter(name, value):
    """From now on the counter of this name has this value."""
    if _counter is not None:
        _counter(_bytes(name), float(value))


def pause():
    """Nothing is collected from now on, in any thread."""
    if _pause is not None:
        _pause()


def resume():
    """Goes on after `pause`."""
    if _resume is not None:
        _resume()


def name_thread(name):
    """Names the calling thread in the trace."""
    if _name_thread is not None:
        _name_thread(_bytes(name))


def is_recording():
    """Whether anything is recorded at present: to save the work for a name."""
    return bool(_is_recording is not None and _is_recording())


def __getattr__(name):
    if name not in _PARTS:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    return getattr(_importlib.import_module(_PARTS[name], __name__), name)


def load_ipython_extension(shell):
    """What `%load_ext rsys` calls."""
    _importlib.import_module("._notebook", __name__).load(shell)
