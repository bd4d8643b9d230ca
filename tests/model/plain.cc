// See plain.h.
#include "model/plain.h"

namespace weft::model {

void cell_base::renew() {
  engine& e = engine::get();
  if (execution == e.execution()) return;
  *this = cell_base{};
  execution = e.execution();
}

void cell_base::on_read() {
  engine& e = engine::get();
  renew();
  e.check(write.before(e.me().cur.knows), "data race: a read beside a write");
  if (e.in_thread()) reads[static_cast<std::size_t>(e.current())] = e.tick();
}

void cell_base::on_write() {
  engine& e = engine::get();
  renew();
  e.check(write.before(e.me().cur.knows), "data race: two writes");
  for (const event& read : reads) {
    e.check(read.before(e.me().cur.knows), "data race: a write beside a read");
  }
  write = e.tick();
}

void slot_base::renew() {
  engine& e = engine::get();
  if (execution == e.execution()) return;
  *this = slot_base{};
  execution = e.execution();
}

void slot_base::on_read() {
  engine& e = engine::get();
  renew();
  if (!e.in_thread()) return;
  auto& t = e.me();
  const bool published = write.before(t.cur.knows);
  t.reads.push_back({this, e.tick(), serial, published});
}

void slot_base::on_write() {
  engine& e = engine::get();
  renew();
  const vclock& now = e.me().cur.knows;
  e.check(write.before(now), "data race: a slot is written beside another write");
  for (const event& read : confirmed) {
    e.check(read.before(now), "data race: a slot is overwritten beside the read that took it");
  }
  write = e.tick();
  ++serial;
}

void confirm_reads(engine& e) {
  if (!e.in_thread()) return;
  for (const pending_read& read : e.me().reads) {
    e.check(read.published, "data race: a slot is taken that was not published");
    e.check(read.serial == read.where->serial, "a slot was overwritten while it was being taken");
    read.where->confirmed[static_cast<std::size_t>(e.current())] = read.when;
  }
}

}  // namespace weft::model
