// See memory.h.
#include "model/memory.h"

namespace weft::model {

void fence(std::memory_order order) {
  engine& e = engine::get();
  if (order == std::memory_order_relaxed) return;  // a mutant: no fence at all
  e.point();
  auto& t = e.me();
  if (acquires(order)) t.cur.join(t.unfenced);
  if (order == std::memory_order_seq_cst) {
    t.cur.sees.join(e.seq_cst);
    e.seq_cst = t.cur.sees;
  }
  if (releases(order)) t.released = t.cur;
  if (e.tracing())
    e.trace(std::string("fence ") + order_name(order) + "   [" + labels_used() + "]");
}

void light_fence(std::memory_order order) {
  engine& e = engine::get();
  if (order != std::memory_order_seq_cst) return;  // a mutant
  e.point();
  auto& t = e.me();
  t.cur.sees.join(e.heavy);
  e.light.join(t.cur.sees);
  if (e.tracing()) e.trace("light fence   [" + labels_used() + "]");
}

void heavy_fence(std::memory_order order) {
  if (order != std::memory_order_seq_cst) return fence(order);  // a mutant
  engine& e = engine::get();
  e.point();
  auto& t = e.me();
  t.cur.join(t.unfenced);
  t.cur.sees.join(e.seq_cst);
  t.cur.sees.join(e.light);
  e.seq_cst = t.cur.sees;
  e.heavy = t.cur.sees;
  t.released = t.cur;
  if (e.tracing()) e.trace("heavy fence   [" + labels_used() + "]");
}

}  // namespace weft::model
