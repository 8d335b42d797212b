// Uses a function where it is there.
extern void ucp_get_nbx(void) __attribute__((weak));
extern int gate_name(void);
int is_there(void) { return gate_name() == 7 && ucp_get_nbx; }
