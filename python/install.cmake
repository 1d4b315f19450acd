# SPDX-License-Identifier: GPL-3.0-or-later
# cmake --install includes this file. It puts the Python package where Debian's /usr/bin/python3 looks for it: below /usr
# in lib/python3/dist-packages, below /usr/local in lib/python3.11/dist-packages. Other prefixes need PYTHONPATH.
set(folder lib/python3/dist-packages)
if(CMAKE_INSTALL_PREFIX MATCHES "/usr/local/?$")
  execute_process(COMMAND /usr/bin/python3 -c "import sys; print('%d.%d' % sys.version_info[:2])"
    OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(folder lib/python${version}/dist-packages)
  endif()
endif()
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${folder} TYPE DIRECTORY FILES ${CMAKE_CURRENT_LIST_DIR}/slimsim
  FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)
