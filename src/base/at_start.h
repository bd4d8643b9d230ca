// What every process touches as it begins stands together, apart from code and tables that few use.
//
// Problem. A page that is first touched costs a fault, of more than a microsecond in a virtual machine; and most of what a runtime
// adds to the start of a small program is faults. The linker puts variables where their files are, each beside its neighbours'
// tables, which nobody touches.
#pragma once

// A function that runs once, before anything else: beside main().
#define WEFT_RUNS_AT_START [[gnu::section(".text.startup")]]
// A variable that is written then: beside those that are not zero at first.
#define WEFT_SET_AT_START [[gnu::section(".data.weft_start")]]
