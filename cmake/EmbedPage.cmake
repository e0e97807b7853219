# ebbtide_embed_page(<target>): makes report/page/texts.h, the files of src/report/page (plan.js is kPlanJs), so that the
# program needs no files beside it.
function(ebbtide_embed_page target)
  set(folder ${PROJECT_SOURCE_DIR}/src/report/page)
  set(text "// Made from src/report/page by cmake/EmbedPage.cmake.\n#pragma once\n\nnamespace ebbtide::report {\n\n")
  foreach(file IN ITEMS frame.html page.html page.css page.js plan.html plan.css plan.js timeline.js curve.js words.js
               reach.js share.html share.css share.js cluster.html cluster.css cluster.js result.html result.css result.js)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${file})
    file(READ ${folder}/${file} content)
    string(REGEX MATCH "^(.)([a-z]*)[.](.)([a-z]*)$" matched ${file})
    string(TOUPPER "${CMAKE_MATCH_1}" name)
    string(TOUPPER "${CMAKE_MATCH_3}" kind)
    string(APPEND text
           "inline constexpr char k${name}${CMAKE_MATCH_2}${kind}${CMAKE_MATCH_4}[] = R\"page(${content})page\";\n")
  endforeach()
  string(APPEND text "\n}  // namespace ebbtide::report\n")
  file(GENERATE OUTPUT ${EBBTIDE_GENERATED}/report/page/texts.h CONTENT "${text}")
  target_include_directories(${target} PRIVATE ${EBBTIDE_GENERATED})
endfunction()
