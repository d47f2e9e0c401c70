// The page of `moetwin report`: report_page.html as text. It needs nothing from elsewhere: style
// and script are in it, the report comes in as JSON.
#pragma once

namespace moetwin {

/// Where in the page the report goes, as JSON whose '<' are escaped.
constexpr const char* kReportPlace = "REPORT_JSON";

const char* report_page();

}  // namespace moetwin
