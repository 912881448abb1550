# Settings that hold for every target.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# C++17, except for files that include TensorFlow's headers: see Targets.cmake.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# All libraries are installed in one folder and find each other there.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_package(Threads REQUIRED)

add_compile_options(-Wall -Wextra -Wnon-virtual-dtor -fno-semantic-interposition)
if(NPU_BRIDGE_WERROR)
  add_compile_options(-Werror)
endif()
# TensorFlow's wheels are built with NDEBUG, and their inline destructors abort in a build without.
add_compile_definitions(NDEBUG)
if(NOT NPU_BRIDGE_CXX11_ABI STREQUAL "")
  add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${NPU_BRIDGE_CXX11_ABI})
endif()

if(NPU_BRIDGE_SANITIZE)
  if(NOT NPU_BRIDGE_SANITIZE MATCHES "^(address|undefined|thread|address,undefined)$")
    message(FATAL_ERROR "NPU_BRIDGE_SANITIZE is '${NPU_BRIDGE_SANITIZE}', "
                        "allowed are address, undefined, thread and address,undefined.")
  endif()
  add_compile_options(-fsanitize=${NPU_BRIDGE_SANITIZE} -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${NPU_BRIDGE_SANITIZE})
  if(NPU_BRIDGE_SANITIZE MATCHES "undefined")
    # A test fails when undefined behaviour is met, not only prints it.
    add_compile_options(-fno-sanitize-recover=all)
  endif()
else()
  # A symbol that no linked library has is found now, not when a user loads the library.
  set(NPU_BRIDGE_NO_UNDEFINED "-Wl,-z,defs")
endif()
