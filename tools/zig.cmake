# Compiles with zig from PyPI against glibc 2.17, whatever this machine has or has not.
#   cmake -DCMAKE_TOOLCHAIN_FILE=tools/zig.cmake        (Python with `ziglang` on the PATH or named)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

# CMake reads this file again for every compiler check, in a project without our variables.
if(NOT DEFINED ENV{MOIETY_ZIG})
  if(NOT Python_EXECUTABLE)
    find_program(Python_EXECUTABLE NAMES python3 python REQUIRED)
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'zig', end='')"
    OUTPUT_VARIABLE zig
    COMMAND_ERROR_IS_FATAL ANY)
  set(ENV{MOIETY_ZIG} "${zig}")
endif()

set(CMAKE_C_COMPILER "$ENV{MOIETY_ZIG}" cc)
set(CMAKE_C_COMPILER_TARGET x86_64-linux-gnu.2.17)
set(CMAKE_C_FLAGS_INIT "-mcpu=x86_64")
