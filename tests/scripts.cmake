# SPDX-License-Identifier: GPL-3.0-or-later
# Checks that are not C. tests/test_x.py finds the program in SLIMSIM and may write in the folder SLIMSIM_SCRATCH; it
# ends with 77 where it cannot run.
file(GLOB python_tests CONFIGURE_DEPENDS test_*.py)
foreach(source ${python_tests})
  get_filename_component(name ${source} NAME_WE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/scratch/${name})
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${source} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "SLIMSIM=$<TARGET_FILE:slimsim>;SLIMSIM_SCRATCH=${PROJECT_BINARY_DIR}/scratch/${name}")
endforeach()

# test_write_faults.py loads this library into the program. A sanitizer would have to come before it.
add_library(fail_nth MODULE preload/fail_nth.c)
target_compile_definitions(fail_nth PRIVATE _GNU_SOURCE)
target_compile_options(fail_nth PRIVATE -fno-sanitize=all)
set_property(TEST test_write_faults APPEND PROPERTY ENVIRONMENT "SLIMSIM_FAIL_NTH=$<TARGET_FILE:fail_nth>")

# Damaged inputs, where sanitizers watch: for 20 s. Longer: SLIMSIM_FUZZ_SECONDS, or ctest --preset fuzz.
if(CMAKE_C_FLAGS MATCHES "-fsanitize=address")
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/scratch/fuzz)
  add_test(NAME fuzz COMMAND ${Python3_EXECUTABLE} tests/fuzz/fuzz.py WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(fuzz PROPERTIES TIMEOUT 7200 COST 500
    ENVIRONMENT "SLIMSIM=$<TARGET_FILE:slimsim>;SLIMSIM_SCRATCH=${PROJECT_BINARY_DIR}/scratch/fuzz")
endif()

# Damaged files for the scripts of analysis/ and the package: for 8 s, or as above.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/scratch/fuzz_scripts)
add_test(NAME fuzz_scripts COMMAND ${Python3_EXECUTABLE} tests/fuzz/scripts.py WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(fuzz_scripts PROPERTIES LABELS once TIMEOUT 7200
  ENVIRONMENT "SLIMSIM=$<TARGET_FILE:slimsim>;SLIMSIM_SCRATCH=${PROJECT_BINARY_DIR}/scratch/fuzz_scripts")

# The commands that use threads, where ThreadSanitizer watches: the preset tsan.
if(CMAKE_C_FLAGS MATCHES "-fsanitize=thread")
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/scratch/threads)
  add_test(NAME threads COMMAND ${Python3_EXECUTABLE} tests/check_threads.py WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(threads PROPERTIES TIMEOUT 3600
    ENVIRONMENT "SLIMSIM=$<TARGET_FILE:slimsim>;SLIMSIM_SCRATCH=${PROJECT_BINARY_DIR}/scratch/threads")
endif()

# ./test.sh runs each test once: in the preset asan those of C, damaged inputs and the scripts below, and in the preset
# once, which is a part of dev, all others.
foreach(source ${python_tests})
  get_filename_component(name ${source} NAME_WE)
  if(NOT name MATCHES "^test_(sweep|engines|properties)$")
    set_tests_properties(${name} PROPERTIES LABELS once)
  endif()
endforeach()
# The preset long: a build of the release in two folders, the report of a trace of 10 MB, and the package in a bare system.
set_tests_properties(test_reproducible test_large_report test_bare_system PROPERTIES LABELS "once;long" TIMEOUT 3600)
set_tests_properties(test_docs test_capacity test_write_faults test_cli test_cli_run test_search test_sweep test_sweep_failures
  PROPERTIES COST 500) # they start early
set_tests_properties(test_sweep_failures PROPERTIES TIMEOUT 3600) # 50 kills wait for a busy disk

# test_trace_h5py.py reads the trace that test_record writes.
set_tests_properties(test_record PROPERTIES FIXTURES_SETUP sample_trace)
set_tests_properties(test_trace_h5py PROPERTIES FIXTURES_REQUIRED sample_trace)

function(add_source_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS once TIMEOUT 600)
endfunction()

add_source_test(structure ${Python3_EXECUTABLE} tests/check_structure.py)
add_source_test(words ${Python3_EXECUTABLE} tests/check_words.py)
add_source_test(model_sources ${Python3_EXECUTABLE} tests/check_model_sources.py)

# Debian 12's version: another one formats and finds differently.
find_program(CLANG_FORMAT clang-format-14)
find_program(CLANG_TIDY clang-tidy-14)
if(NOT CLANG_FORMAT OR NOT CLANG_TIDY)
  message(STATUS "clang-format-14 or clang-tidy-14 is missing: the tests will not check the format (./packages.sh test)")
  return()
endif()
file(GLOB_RECURSE c_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/src/*.[ch] ${PROJECT_SOURCE_DIR}/tests/*.[ch] ${PROJECT_SOURCE_DIR}/bench/*.[ch])
add_source_test(format ${CLANG_FORMAT} --dry-run -Werror ${c_files})

set(folders ${c_files})
list(FILTER folders INCLUDE REGEX "\\.c$")
list(TRANSFORM folders REPLACE "/[^/]*$" "")
list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  set(files ${c_files})
  list(FILTER files INCLUDE REGEX "^${folder}/[^/]*\\.c$")
  string(REGEX REPLACE "^src/" "" name ${folder})
  add_source_test(tidy_${name} ${CLANG_TIDY} --quiet --checks=-clang-analyzer-* -p ${PROJECT_BINARY_DIR} ${files})
  # The analyzer takes 20 times as long as all other checks, so it has a preset of its own.
  add_source_test(analyze_${name} ${CLANG_TIDY} --quiet -p ${PROJECT_BINARY_DIR} ${files})
  list(LENGTH files n_files)
  set_tests_properties(analyze_${name} PROPERTIES LABELS "once;analyze" COST ${n_files}) # the longest start first
endforeach()
