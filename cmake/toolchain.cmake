# Compiler flags, sanitizers, ccache and linker: the same for every target.
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -Werror)
# Scores, schedules and simulations must not depend on whether a compiler fuses a multiply and an add.
add_compile_options(-ffp-contract=off)
add_compile_options(-fno-omit-frame-pointer)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
# Debug is only used under sanitizers, where -O0 would take minutes more.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

if(TAILRACE_SANITIZE)
  add_compile_options(-fsanitize=${TAILRACE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TAILRACE_SANITIZE})
  if(TAILRACE_SANITIZE MATCHES "undefined")
    # Boost.JSON's memory resource lives in a shared library whose type information is hidden, which the
    # vptr check takes for a damaged object.
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()

if(TAILRACE_FUZZ)
  # Coverage of the whole library, so that a fuzzer sees past its own file.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS link_pool=1)
set(CMAKE_JOB_POOL_LINK link_pool)
