// Waits while the loader fills in its references: those of what needs it come later.
#include "gate.h"

static int answer(void) { return 42; }

static int (*wait_and_choose(void))(void)
{
    volatile int *gate = (volatile int *)GATE;
    gate[ARRIVED] = 1;
    while (!gate[OPEN])
        ;
    return answer;
}

int gate_choice(void) __attribute__((ifunc("wait_and_choose")));
int (*gate_chosen)(void) = gate_choice;
int gate_name(void) { return 7; }
