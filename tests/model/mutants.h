// Deliberate mistakes, one at a time: is every order and every step of a protocol needed?
//
// A *site* is one WEFT_ORDER(LABEL, order) in the source, known by label, file, line and order.
// Sites enrol themselves before main, executed or not, so a model cannot pass by not reaching one.
// The mutant of a site weakens it by one step: seq_cst to acq_rel, acq_rel to release and to
// acquire (two mutants), acquire and release to relaxed. One step is the strongest demand: if the
// weaker neighbour fails, everything below it fails too. A relaxed fence is no fence.
//
// A *logic mutant* is a named switch: WEFT_MUTANT("name") in a header, mutant("name") in a model.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace weft::model {

struct site {
  const char* label;
  const char* file;
  int line;
  std::memory_order order;
};

const char* order_name(std::memory_order order);
std::string where(const site& s);  // "gmp/run_queue.h:120"
const site* enroll(const site& s);
const std::vector<const site*>& all_sites();
std::vector<std::memory_order> weaker_orders(std::memory_order order);

// The one mistake that is switched on: a site with its weaker order, or a name.
struct active_mutant {
  const site* where = nullptr;
  std::memory_order order = std::memory_order_relaxed;
  std::string name;
};
inline active_mutant the_mutant;
inline active_mutant& active() { return the_mutant; }

void remember_label(const site* s);  // for the trace
std::string labels_used();           // since the last call: "RQ1 gmp/run_queue.h:120"
inline bool remember_labels = false;

inline std::memory_order order_of(const site* s) {
  if (remember_labels) remember_label(s);
  return active().where == s ? active().order : s->order;
}

bool mutant(const char* name, const char* file = "");
struct logic_mutant {
  std::string name, file;  // file: "" if it is the model's own
};
std::vector<logic_mutant>& logic_mutants();  // seen so far
bool enroll_mutant(const char* name, const char* file);

template <class Here>
struct enrolled {
  static inline const site* const where = enroll(Here::here());
};
template <class Here>
struct enrolled_mutant {
  static inline const bool done = enroll_mutant(Here::name(), Here::file());
};

}  // namespace weft::model

#define WEFT_ORDER(LABEL, ORDER)                                               \
  ([]() -> ::std::memory_order {                                               \
    struct weft_site {                                                         \
      static ::weft::model::site here() {                                      \
        return {#LABEL, __FILE__, __LINE__, ::std::memory_order_##ORDER};      \
      }                                                                        \
    };                                                                         \
    return ::weft::model::order_of(::weft::model::enrolled<weft_site>::where); \
  }())

#define WEFT_MUTANT(NAME)                                       \
  ([]() -> bool {                                               \
    struct weft_mutant {                                        \
      static const char* name() { return NAME; }                \
      static const char* file() { return __FILE__; }            \
    };                                                          \
    return ::weft::model::enrolled_mutant<weft_mutant>::done && \
           ::weft::model::mutant(NAME, __FILE__);               \
  }())
