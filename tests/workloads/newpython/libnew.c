/* What an interpreter of a version to come looks like to somebody who knows none of its insides. */
const unsigned long Py_Version = 0x03630000 | 0x01f0;
char _PyRuntime[4096];
char PyCode_Type[512];

void *PyGILState_GetThisThreadState(void) { return _PyRuntime; }

__attribute__((noinline)) unsigned long evaluate(unsigned long steps) {
    volatile unsigned long value = 1;
    for (unsigned long step = 0; step < steps; step++) value = value * 31 + step;
    return value;
}
