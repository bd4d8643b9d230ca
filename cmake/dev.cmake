# Developer builds only: what we demand of our own code and never of a consumer's.

add_library(weft_warnings INTERFACE)
target_compile_options(weft_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>
  # g++ 12 sees impossible sizes in std::string at -O3 (its bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-stringop-overflow>)

# For compilers newer than ours, which may warn of more: ./weft turns it off, .ci/run on again. Not
# `cmake --compile-no-warning-as-error`: that is forgotten when ninja finds that it must configure again.
option(WEFT_WERROR "Warnings in weft's own sources are errors" ON)

# The options are copied, not linked: a link would become part of the exported interface.
function(weft_strict target)
  target_compile_options(${target} PRIVATE
    $<TARGET_PROPERTY:weft_warnings,INTERFACE_COMPILE_OPTIONS>)
  set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR ${WEFT_WERROR} CXX_EXTENSIONS OFF)
endfunction()

weft_strict(weft)
# In a unity build the private names of one file are no business of the next one's.
target_compile_options(weft PRIVATE $<$<AND:$<BOOL:$<TARGET_PROPERTY:weft,UNITY_BUILD>>,$<COMPILE_LANGUAGE:CXX>>:-Wno-shadow>)

find_program(WEFT_CCACHE ccache)
mark_as_advanced(WEFT_CCACHE)
if(WEFT_CCACHE)
  set_target_properties(weft PROPERTIES CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
endif()

# For examples and their tests only, where they are installed; not those of the building machine in a cross build.
if(NOT CMAKE_CROSSCOMPILING)
  find_path(WEFT_BOOST_INCLUDE boost/beast.hpp)
  find_package(OpenSSL QUIET)
  mark_as_advanced(WEFT_BOOST_INCLUDE)
endif()
if(NOT WEFT_BOOST_INCLUDE)
  set_target_properties(weft PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  message(STATUS "weft: Boost not found (Debian: libboost-dev): example beast_server is left out")
endif()
if(NOT OPENSSL_FOUND)
  message(STATUS "weft: OpenSSL not found (Debian: libssl-dev): example tls is left out")
endif()
