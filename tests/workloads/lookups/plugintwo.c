int ncclGroupStart(void)
{
    return 21;
}
