// All that the program has of UCX.
int ucp_init_version(void) { return 0; }
