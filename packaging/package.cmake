# SPDX-License-Identifier: GPL-3.0-or-later
# `cpack` in the build folder makes a Debian package of what `cmake --install` installs. The sources are packed by
# `cmake --build BUILD --target tarball`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME slimsim)
set(CPACK_PACKAGE_CONTACT "slimsim maintainers <maintainers@slimsim.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "simulator of the training of language models on GPU clusters")
set(CPACK_PACKAGE_DESCRIPTION "slimsim says how long an iteration of training takes on a cluster of GPUs, what
fills their memory, what it costs, and why one system is faster than another.
Documents may have any lengths. Models, devices and clusters are included.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3:any, python3-yaml")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-h5py, python3-matplotlib, python3-numpy, python3-pandas")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-tables, slurm-client") # pandas.read_hdf of a trace; slimsim submit
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
include(CPack)

find_program(GIT git)
if(GIT AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  set(tarball slimsim-${PROJECT_VERSION})
  add_custom_target(tarball VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND ${GIT} archive --prefix=${tarball}/ --output=${PROJECT_BINARY_DIR}/${tarball}.tar.gz HEAD)
endif()
