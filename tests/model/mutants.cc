// See mutants.h.
#include "model/mutants.h"

#include <algorithm>
#include <cstring>

namespace weft::model {
namespace {

std::vector<const site*>& sites() {
  static std::vector<const site*> all;
  return all;
}

std::vector<const site*> recent;  // sites evaluated since labels_used()

}  // namespace

const char* order_name(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_acquire: return "acquire";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
    default: return "consume";
  }
}

// The last two parts of the path: enough to find the file, and the same on every machine.
std::string where(const site& s) {
  const std::string file = s.file;
  std::size_t cut = file.rfind('/');
  if (cut != std::string::npos && cut > 0) cut = file.rfind('/', cut - 1);
  return (cut == std::string::npos ? file : file.substr(cut + 1)) + ":" + std::to_string(s.line);
}

const site* enroll(const site& s) {
  for (const site* known : sites()) {  // a template enrols once for each instantiation
    if (known->line == s.line && known->order == s.order && !std::strcmp(known->label, s.label) &&
        !std::strcmp(known->file, s.file)) {
      return known;
    }
  }
  sites().push_back(new site(s));
  return sites().back();
}

const std::vector<const site*>& all_sites() { return sites(); }

std::vector<std::memory_order> weaker_orders(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed: return {};
    case std::memory_order_acq_rel: return {std::memory_order_release, std::memory_order_acquire};
    case std::memory_order_seq_cst: return {std::memory_order_acq_rel};
    default: return {std::memory_order_relaxed};
  }
}

void remember_label(const site* s) {
  if (recent.size() < 4) recent.push_back(s);
}

std::string labels_used() {
  std::string text;
  for (const site* s : recent) {
    if (!text.empty()) text += ", ";
    text += std::string(s->label) + " " + where(*s);
    if (active().where == s) text += " WEAKENED";
  }
  recent.clear();
  return text;
}

std::vector<logic_mutant>& logic_mutants() {
  static std::vector<logic_mutant> all;
  return all;
}

bool enroll_mutant(const char* name, const char* file) {
  auto& all = logic_mutants();
  const bool known = std::any_of(all.begin(), all.end(), [&](const logic_mutant& m) {
    return m.name == name && m.file == file;
  });
  if (!known) all.push_back({name, file});
  return true;
}

bool mutant(const char* name, const char* file) {
  if (*file == '\0') enroll_mutant(name, file);
  return !active().name.empty() && active().name == name;
}

}  // namespace weft::model
