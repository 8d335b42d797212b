// A page that the loader's resolver can use, for which nothing was filled in yet.
#define GATE 0x100000000000
enum { ARRIVED, OPEN };
