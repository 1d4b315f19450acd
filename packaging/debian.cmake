# SPDX-License-Identifier: GPL-3.0-or-later
# cpack includes this file when all is installed below CPACK_TEMPORARY_DIRECTORY. It adds what Debian's policy asks of a
# package: the copyright, and changelogs and a manual that are compressed without a time.
set(usr ${CPACK_TEMPORARY_DIRECTORY}/usr)
set(doc ${usr}/share/doc/slimsim)
file(MAKE_DIRECTORY ${doc})
file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions) # the folder that Debian's zsh reads
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright COPYONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog ${doc}/changelog @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/../CHANGELOG.md ${doc}/CHANGELOG.md COPYONLY)
foreach(file ${doc}/changelog ${doc}/CHANGELOG.md ${usr}/share/man/man1/slimsim.1)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
