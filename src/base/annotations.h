// Names for clang's thread-safety analysis (-Wthread-safety); empty for other compilers.
//
// A field says which lock guards it, a function says which lock it needs, and clang proves both at
// compile time. The analysis is purely lexical: a lock that is passed on by a switch of stacks must
// be taken and dropped in functions marked WEFT_NO_THREAD_SAFETY_ANALYSIS, with the reason.
#pragma once

#if defined(__clang__)
#define WEFT_TSA(x) __attribute__((x))
#else
#define WEFT_TSA(x)
#endif

#define WEFT_CAPABILITY(name) WEFT_TSA(capability(name))
#define WEFT_SCOPED_CAPABILITY WEFT_TSA(scoped_lockable)
#define WEFT_GUARDED_BY(x) WEFT_TSA(guarded_by(x))
#define WEFT_PT_GUARDED_BY(x) WEFT_TSA(pt_guarded_by(x))
#define WEFT_REQUIRES(...) WEFT_TSA(requires_capability(__VA_ARGS__))
#define WEFT_EXCLUDES(...) WEFT_TSA(locks_excluded(__VA_ARGS__))
#define WEFT_ACQUIRE(...) WEFT_TSA(acquire_capability(__VA_ARGS__))
#define WEFT_RELEASE(...) WEFT_TSA(release_capability(__VA_ARGS__))
#define WEFT_TRY_ACQUIRE(...) WEFT_TSA(try_acquire_capability(__VA_ARGS__))
#define WEFT_ASSERT_CAPABILITY(x) WEFT_TSA(assert_capability(x))
#define WEFT_RETURN_CAPABILITY(x) WEFT_TSA(lock_returned(x))
#define WEFT_NO_THREAD_SAFETY_ANALYSIS WEFT_TSA(no_thread_safety_analysis)
