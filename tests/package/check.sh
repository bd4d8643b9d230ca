#!/usr/bin/env bash
# Builds and runs a consumer of weft: check.sh WAY SOURCE BUILD CXX
#   static        installed static library through find_package
#   pkgconfig     the same through pkg-config --static, from a moved prefix
#   odr           every public header in two translation units of one program
#   shared        a shared library, built and installed; it may export weft:: only, and all that headers say
#   fetchcontent  weft as a sub-project, without liburing
#   clone         the first words of the README, in a bare clone: ./weft run examples/hello.cpp
# The last three compile the library once more: shared as a unity build by our option, fetchcontent as one by CMake's, and
# clone file by file.
set -euo pipefail

way=$1 source=$2 build=$3 cxx=$4
here=$source/tests/package
work=$build/package/$way
rm -rf "$work"
mkdir -p "$work"
jobs=$(nproc)

fail() { printf 'package.%s: %s\n' "$way" "$*" >&2; exit 1; }
skip() { printf 'package.%s: skipped: %s\n' "$way" "$*"; exit 77; }  # as CMakeLists.txt has it

expect_sum() {  # runs the consumer, which prints one known line
  local out
  out=$("$@") || fail "$* ended with status $?"
  [ "$out" = "sum 42" ] || fail "$* printed: $out"
}

install_static() { cmake --install "$build" --prefix "$work/prefix" >/dev/null; }

consume() {  # find_package against $work/prefix
  cmake -S "$here/consumer" -B "$work/consumer" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
  cmake --build "$work/consumer"
  expect_sum "$work/consumer/consumer"
}

case $way in
  static)
    install_static
    consume
    # Programs use weft in the initialisers of their statics, and pay for what they do not use: the library has none of its own.
    early=$(objdump -h "$work"/prefix/lib*/libweft.a | awk '/file format/ {object = $1} $2 ~ /^\.(init_array|ctors)/ {print object}')
    [ -z "$early" ] || fail "runs code before main():"$'\n'"$early"
    # Calls of others must end in libc, and not in the library: it defines none of libc's symbols, weak ones neither.
    libc=$(nm -D --defined-only "$("$cxx" -print-file-name=libc.so.6)" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u)
    [[ $libc == *nanosleep* ]] || fail "cannot tell what libc defines"
    both=$(nm -g --defined-only "$work"/prefix/lib*/libweft.a | awk 'NF == 3 {print $3}' | sort -u | comm -12 - <(echo "$libc"))
    [ -z "$both" ] || fail "defines what is libc's:"$'\n'"$both"
    # A machine without liburing is told so, and not by the linker.
    if grep -q '^WEFT_FOUND_LIBURING:INTERNAL=1' "$build/CMakeCache.txt"; then
      said=$(cmake -S "$here/consumer" -B "$work/without" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
        -DCMAKE_PREFIX_PATH="$work/prefix" "-DCMAKE_IGNORE_PREFIX_PATH=/;/usr;/usr/local" 2>&1) && fail "configured without liburing"
      [[ $said == *liburing* ]] || fail "does not say that liburing is missing: $said"
    fi
    ;;
  pkgconfig)
    install_static
    mv "$work/prefix" "$work/moved"
    dir=$(dirname "$(find "$work/moved" -name weft.pc)")
    flags=$(PKG_CONFIG_PATH=$dir pkg-config --cflags --static --libs weft)
    [[ $flags == *-pthread* ]] || fail "no -pthread in: $flags"
    if grep -q '^WEFT_FOUND_LIBURING:INTERNAL=1' "$build/CMakeCache.txt"; then
      [[ $flags == *-luring* || $flags == *-l:liburing.a* ]] || fail "no liburing in: $flags"
    fi
    # shellcheck disable=SC2086  # the flags are words
    eval "$cxx" -std=c++20 -O2 -o "'$work/consumer'" "'$here/main.cc'" $flags
    expect_sum "$work/consumer"
    # The headers have instructions in them; programs may be compiled for either way of writing those.
    if [[ $("$cxx" -dumpmachine) == x86_64-* ]]; then
      printf '#include <weft/weft.h>\nweft::mutex* m() { auto* m = new weft::mutex; m->lock(); return m; }\n' >"$work/intel.cc"
      # shellcheck disable=SC2086
      eval "$cxx" -std=c++20 -O2 -masm=intel -c -o "'$work/intel.o'" "'$work/intel.cc'" $flags
    fi
    # Where there is an archive of it, programs load no liburing.so.
    if grep -q '^WEFT_FOUND_LIBURING_ARCHIVE:INTERNAL=1' "$build/CMakeCache.txt"; then
      loads=$(readelf -d "$work/consumer" | grep NEEDED)
      [[ $loads != *liburing* ]] || fail "loads liburing: $loads"
    fi
    ;;
  odr)
    install_static
    for header in "$work"/prefix/include/weft/*.h; do
      printf '#include <weft/%s>\n#include <weft/%s>\n' "${header##*/}" "${header##*/}"
    done >"$work/all.inc"
    for unit in one two; do
      { cat "$work/all.inc"; printf 'int %s() { return 21; }\n' $unit; } >"$work/$unit.cc"
    done
    printf '#include <cstdio>\nint one();\nint two();\nint main() { std::printf("sum %%d\\n", one() + two()); }\n' \
      >"$work/main.cc"
    "$cxx" -std=c++20 -Wall -Wextra -Werror -I"$work/prefix/include" -o "$work/odr" \
      "$work/one.cc" "$work/two.cc" "$work/main.cc" "$work"/prefix/lib*/libweft.a -pthread
    expect_sum "$work/odr"
    ;;
  shared)
    cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
      -DBUILD_SHARED_LIBS=ON -DWEFT_UNITY=ON -DWEFT_DEV=OFF -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_INSTALL_LIBDIR=lib
    cmake --build "$work/build" --parallel "$jobs"
    cmake --install "$work/build" >/dev/null
    consume
    [[ $(ldd "$work/consumer/consumer") == *"$work/prefix/lib/libweft.so"* ]] || fail "not linked to the shared library"
    # Thread-locals are at an offset (initial-exec): a signal handler does not ask the loader, whose lock a frozen goroutine may hold.
    asked=$(readelf -rW "$work/prefix/lib/libweft.so" | grep -E 'TLSGD|TLSLD|DTPMOD|TLSDESC' || true)
    [ -z "$asked" ] || fail "asks the loader where its thread-locals are:"$'\n'"$asked"
    # Exported: the public API, type information and instances that the language wants unique, and what debuggers read.
    alien=$(nm -D --defined-only --demangle "$work/prefix/lib/libweft.so" | awk '$2 ~ /[TBDRV]/' |
      grep -vE ' weft_debug_layout$| (non-virtual thunk to |typeinfo (name )?for |vtable for |guard variable for )?weft::| typeinfo (name )?for std::' || true)
    [ -z "$alien" ] || fail "exports what is not weft's API:"$'\n'"$alien"
    internal=$(nm -D --defined-only --demangle "$work/prefix/lib/libweft.so" | grep ' weft::rt::' || true)
    [ -z "$internal" ] || fail "exports internals:"$'\n'"$internal"
    # … and nothing is missing: a function is hidden if the file that defines it does not see the header.
    declared=$("$cxx" -std=c++20 -E -P -I"$work/prefix/include" "$here/every_header.cc" |
      grep -oP 'visibility\("default"\)\)\) [^;({]*?\K~?\w+(?=\()' | sort -u)
    [[ $declared == *take_off* ]] || fail "cannot tell what headers declare: $declared"
    exported=$(nm -D --defined-only --demangle "$work/prefix/lib/libweft.so" | awk '$2 == "T"' |
      sed -E 's/(\[abi:[^]]*\])?\(.*//; s/.*:://' | sort -u)
    hidden=$(comm -23 <(echo "$declared") <(echo "$exported"))
    [ -z "$hidden" ] || fail "does not export:"$'\n'"$hidden"
    # It runs what all of them have, and its exceptions are the program's.
    "$cxx" -std=c++20 -O0 -I"$work/prefix/include" -o "$work/every_header" "$here/every_header.cc" \
      -L"$work/prefix/lib" -lweft -Wl,-rpath,"$work/prefix/lib" -pthread
    expect_sum timeout 60 "$work/every_header"
    ;;
  fetchcontent)
    cmake -S "$here/fetchcontent" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DWEFT_SOURCE="$source" \
      -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON
    cmake --build "$work/build" --parallel "$jobs"
    expect_sum "$work/build/consumer"
    ;;
  clone)
    unset "${!GIT_@}"  # a hook's are about the repository that it was called for
    for tool in git g++; do command -v "$tool" >/dev/null || skip "$tool is not there"; done
    top=$(git -C "$source" rev-parse --show-toplevel 2>&1) || skip "$source is no git repository: $top"
    [ "$top" -ef "$source" ] || skip "$source is a part of the repository $top"
    git clone -q "$source" "$work/clone"
    # What is to be committed, too; but no file that git does not know: others would not get it.
    git -C "$source" diff --binary HEAD >"$work/changes"
    [ ! -s "$work/changes" ] || git -C "$work/clone" apply --whitespace=nowarn "$work/changes"
    mkdir "$work/clone/built"
    : >"$work/clone/built/.setup-run"  # nothing is to be installed
    hello=$(cd "$work/clone" && env -u CXXFLAGS -u LDFLAGS -u WEFT_WERROR WEFT_BUILD_DIR=built WEFT_JOBS=2 \
      ./weft run examples/hello.cpp </dev/null) || fail "ended with status $?"
    [ "$hello" = "hello from 1000 goroutines: sum 500500" ] || fail "printed: $hello"
    ;;
  *) fail "unknown way" ;;
esac
