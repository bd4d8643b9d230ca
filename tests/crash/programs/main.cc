// crash_programs NAME: runs one of the programs linked in.
#include <cstdio>
#include <cstring>

#include "crash/programs/program.h"

namespace {
constinit crash::program* first = nullptr;
}

crash::program::program(const char* its_name, int (*its_main)())
    : name(its_name), main(its_main), next(first) {
  first = this;
}

int main(int argc, char** argv) {
  for (const crash::program* p = first; argc == 2 && p != nullptr; p = p->next) {
    if (std::strcmp(p->name, argv[1]) == 0) return p->main();
  }
  std::fprintf(stderr, "no such program; there are:\n");
  for (const crash::program* p = first; p != nullptr; p = p->next) {
    std::fprintf(stderr, "  %s\n", p->name);
  }
  return 99;
}
