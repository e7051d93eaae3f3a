# Every `Suite.Name` and every `test_name` that a README names is a test of this tree.
# usage: cmake -DREADME=FILE -DFOLDER=TESTS -P check_readme.cmake
file(READ ${README} text)

# Each name of the text is declared in a file of that kind. declaration: what `name` looks like there.
function(check_names files line name captured declaration count)
  file(GLOB_RECURSE sources ${FOLDER}/${files})
  set(declared "")
  foreach(source ${sources})
    file(STRINGS ${source} lines REGEX "${line}")
    string(APPEND declared "${lines}\n")
  endforeach()
  string(REGEX MATCHALL "`${name}`" names "${text}")
  foreach(one ${names})
    string(REGEX REPLACE "`${captured}`" "${declaration}" wanted "${one}")
    string(FIND "${declared}" "${wanted}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "${README}: no test ${one}")
    endif()
  endforeach()
  list(LENGTH names found)
  set(${count} ${found} PARENT_SCOPE)
endfunction()

check_names(*.cc "^TEST(_F|_P)?\\(" "[A-Z][A-Za-z0-9]*\\.[A-Z][A-Za-z0-9]*" "([A-Za-z0-9]+)\\.([A-Za-z0-9]+)"
            "(\\1, \\2)" of_c)
check_names(*.py "^ *def test_" "test_[a-z0-9_]+" "(test_[a-z0-9_]+)" "def \\1(" of_python)
if(of_c EQUAL 0)
  message(FATAL_ERROR "${README} names no test")
endif()
math(EXPR all "${of_c} + ${of_python}")
message(STATUS "${all} tests named, all there")
