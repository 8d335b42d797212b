// A library whose function a source may wrap.
int probe_tick(int number)
{
    return number + 1;
}
