// Programs that must die, or nearly: each is a function, run in a process of its own by name.
#pragma once

namespace crash {

struct program {
  program(const char* its_name, int (*its_main)());

  const char* name;
  int (*main)();
  program* next;
};

}  // namespace crash

// CRASH_PROGRAM(name) { … return status; }
#define CRASH_PROGRAM(NAME)                                         \
  static int NAME##_main();                                         \
  static const ::crash::program NAME##_program(#NAME, NAME##_main); \
  static int NAME##_main()
