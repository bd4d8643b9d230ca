// A library that knows nothing of weft: built apart, loaded at run time, called like one of C.
#include <time.h>
#include <unistd.h>

extern "C" {

unsigned long stranger_mix(unsigned long x, unsigned long rounds) {
  for (unsigned long i = 0; i < rounds; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

long stranger_read(int fd, void* to, unsigned long size) { return read(fd, to, size); }

int stranger_call_back(int (*f)(void*), void* arg) { return f(arg); }
}
