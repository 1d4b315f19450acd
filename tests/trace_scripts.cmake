# SPDX-License-Identifier: GPL-3.0-or-later
# test_trace_h5py.py reads the trace that test_record writes.
set_tests_properties(test_record PROPERTIES FIXTURES_SETUP sample_trace)
set_tests_properties(test_trace_h5py PROPERTIES FIXTURES_REQUIRED sample_trace)
