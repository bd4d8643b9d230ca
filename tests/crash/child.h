// Runs one of the crash programs in a process of its own and keeps what it printed.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace crash {

struct outcome {
  std::string err;       // standard error
  std::string out;       // standard output
  int exit_status = -1;  // -1 if it did not exit by itself
  int signal = 0;
  bool hung = false;  // had to be killed
};

// `environment`: NAME=value, added to ours.
outcome run_program(const std::string& name, std::initializer_list<const char*> environment = {});

// Any program, perhaps with a signal once it has said something.
struct request {
  std::vector<std::string> command = {};      // empty: the crash programs
  std::string program = {};                   // one of them; the last word of the command otherwise
  std::vector<std::string> environment = {};  // NAME=value, added to ours
  std::string when_it_says = {};              // on its standard output …
  int signal = 0;                             // … it gets this signal
};
outcome run(const request& what);

}  // namespace crash
