# npu_bridge_add_objects(name source...): an object library of `source...`; no target without any.
function(npu_bridge_add_objects name)
  if(ARGN)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC Threads::Threads)
  endif()
endfunction()

# npu_bridge_object_library(name): an object library of the .cc files of this folder. A new file
# there is found by the next build.
function(npu_bridge_object_library name)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  npu_bridge_add_objects(${name} ${sources})
endfunction()

# npu_bridge_core_library(name): the same, for a folder that becomes part of libnpu_bridge_core.so.
function(npu_bridge_core_library name)
  npu_bridge_object_library(${name})
  set_property(GLOBAL APPEND PROPERTY NPU_BRIDGE_CORE_LIBRARIES ${name})
endfunction()

# npu_bridge_link_objects(library object_library...): puts the objects into `library`, passing over
# folders without sources.
function(npu_bridge_link_objects library)
  foreach(objects IN LISTS ARGN)
    if(TARGET ${objects})
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endif()
  endforeach()
endfunction()

# npu_bridge_use_tensorflow(target): compile settings of files that include TensorFlow's headers.
function(npu_bridge_use_tensorflow target)
  if(NOT TARGET ${target})
    return()
  endif()
  # SYSTEM: warnings in TensorFlow's headers are not ours.
  target_include_directories(${target} SYSTEM PRIVATE "${NPU_BRIDGE_TF_INCLUDE_DIR}")
  target_compile_definitions(${target} PRIVATE ${NPU_BRIDGE_TF_DEFINITIONS})
  # What one TensorFlow deprecates is all that an older one has.
  target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
  # TensorFlow's headers take far longer to compile than our files: read them once a folder.
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD ${NPU_BRIDGE_TF_CXX_STANDARD}
    UNITY_BUILD ${NPU_BRIDGE_UNITY_BUILD}
    UNITY_BUILD_BATCH_SIZE 0)
endfunction()
