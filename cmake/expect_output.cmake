# cmake -DPROGRAM=words -DEXPECTED=file -P expect_output.cmake: runs it, compares what it prints.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: status ${status}\n${output}")
elseif(NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} printed\n${output}--- but ${EXPECTED} says\n${expected}")
endif()
