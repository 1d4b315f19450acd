# SPDX-License-Identifier: GPL-3.0-or-later
# SLIMSIM_COMMIT becomes the commit of the sources: of a tarball as `git archive` wrote it into commit.txt, otherwise of
# the checkout, with "-dirty" if files differ, otherwise "unknown". It is found when CMake configures.
set(SLIMSIM_COMMIT unknown)
file(READ ${CMAKE_CURRENT_LIST_DIR}/commit.txt packed)
if(packed MATCHES "^[0-9a-f]+")
  string(SUBSTRING ${packed} 0 12 SLIMSIM_COMMIT)
elseif(EXISTS ${PROJECT_SOURCE_DIR}/.git) # otherwise git would find the repository of a folder above
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(described)
    set(SLIMSIM_COMMIT ${described})
  endif()
endif()
