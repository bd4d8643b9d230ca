// What the scheduler needs from the layer above it, supplied at link time.
#pragma once

namespace weft::rt {

// Sets the hooks by which crashes are reported (fatal.h, unwind.h). Once, while booting.
// Defined in debug/.
void install_diagnostics();

}  // namespace weft::rt
