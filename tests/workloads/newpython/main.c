/* Runs a library that says it is CPython 3.99. */
unsigned long evaluate(unsigned long steps);

int main(void) { return evaluate(600000000) == 0; }
