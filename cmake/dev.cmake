# Developer builds only: what we demand of our own code and never of a consumer's.

add_library(weft_warnings INTERFACE)
target_compile_options(weft_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>
  # g++ 12 sees impossible sizes in std::string at -O3 (its bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-stringop-overflow>)

# Warnings are errors (`cmake --compile-no-warning-as-error` for compilers newer than ours).
# The options are copied, not linked: a link would become part of the exported interface.
function(weft_strict target)
  target_compile_options(${target} PRIVATE
    $<TARGET_PROPERTY:weft_warnings,INTERFACE_COMPILE_OPTIONS>)
  set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR ON CXX_EXTENSIONS OFF)
endfunction()

weft_strict(weft)

find_program(WEFT_CCACHE ccache)
mark_as_advanced(WEFT_CCACHE)
if(WEFT_CCACHE)
  set_target_properties(weft PROPERTIES CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
endif()
