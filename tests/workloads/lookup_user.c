// A library that uses another through its own links.
int ncclGroupStart(void);

int use(void)
{
    return 100 + ncclGroupStart();
}
