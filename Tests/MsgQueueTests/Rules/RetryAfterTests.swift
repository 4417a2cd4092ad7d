import Glibc
import Testing

@testable import MsgQueue

@Suite struct RetryAfterTests {
    private let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private let longDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    private let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    @Test(
        arguments: [
            ("0", 0), ("1", 1_000), ("120", 120_000), (" 5", 5_000), ("5\t ", 5_000), ("0007", 7_000), ("604800", 604_800_000),
        ] as [(String, Int64)])
    func M6_retry_after_in_seconds(header: String, expected: Int64) {
        #expect(RetryAfter.parse(header, now: 1_700_000_000_000) == expected)
    }

    @Test(arguments: ["604801", "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999"])
    func M6_more_seconds_than_fit_are_capped_by_the_policy(header: String) throws {
        let wish = try #require(RetryAfter.parse(header, now: 0))
        #expect(wish >= Options.week)
        #expect(RetryPolicy(Options()).delay(afterRetries: 0, requested: wish, random: 0.5) == Options.week)
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        " Sun, 06 Nov 1994 08:49:37 GMT ",
    ])
    func M6_the_three_forms_of_a_date(header: String) {
        // 784,111,777 s after 1970, the example of the HTTP specification in all three forms.
        #expect(RetryAfter.parse(header, now: 784_111_000_000) == 777_000)
    }

    @Test(
        arguments: [
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199_000), ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200_000),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600_000), ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400_000),
            ("Sun, 28 Feb 2100 00:00:00 GMT", 4_107_456_000_000), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800_000),
        ] as [(String, Int64)])
    func M6_leap_days_and_other_boundaries(header: String, expected: Int64) {
        #expect(RetryAfter.parse(header, now: 0) == expected)
    }

    @Test func M6_a_date_that_has_passed_is_now() {
        #expect(RetryAfter.parse("Sun, 06 Nov 1994 08:49:37 GMT", now: 1_700_000_000_000) == 0)
        #expect(RetryAfter.parse("Wed, 01 Jan 1800 00:00:00 GMT", now: 1_700_000_000_000) == 0)
        #expect(RetryAfter.parse("Thu, 01 Jan 1970 00:00:01 GMT", now: 1_000) == 0)
    }

    @Test(arguments: [
        "", " ", "\t", "-1", "-120", "+5", "1.5", "1e3", "12 s", "12 seconds", "soon", "１２", "12\u{0}", "0x10", ",", "- - -",
        "Sun, 06 Nov 1994 08:49:37 PST", "Sun, 06 Nov 1994 08:49:37", "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT", "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37:00 GMT", "Sun, 06 Nov 1994 ::  GMT", "Sun, 06 Nov 10000 08:49:37 GMT", "06 Nov 1994 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 GMT+1",
        "Sun, 06 Nov 1994 08:49:37 GMT; and so on without any end at all, for ever",
    ])
    func M6_an_invalid_header_is_ignored(header: String) {
        #expect(RetryAfter.parse(header, now: 1_000_000) == nil)
    }

    /// Compares with the calendar of the system.
    @Test func M6_every_form_agrees_with_the_calendar() throws {
        var random = SeededGenerator(11)
        for round in 0..<600 {
            // A year of two digits means 1970 to 2069.
            let isShort = round % 2 == 0
            var seconds = time_t(random.int64(0...(isShort ? 3_155_759_999 : 253_402_300_799)))
            if round % 5 == 0 { seconds = seconds / 86_400 * 86_400 }
            var parts = tm()
            gmtime_r(&seconds, &parts)
            let (day, hour) = (Int(parts.tm_mday), Int(parts.tm_hour))
            let clock = [hour, Int(parts.tm_min), Int(parts.tm_sec)].map { two($0) }.joined(separator: ":")
            let month = months[Int(parts.tm_mon)]
            let year = Int(parts.tm_year) + 1900
            let weekday = Int(parts.tm_wday)
            let padded = day < 10 ? " \(day)" : "\(day)"
            var forms = [
                "\(days[weekday]), \(two(day)) \(month) \(four(year)) \(clock) GMT",
                "\(days[weekday]) \(month) \(padded) \(clock) \(four(year))",
            ]
            if isShort { forms.append("\(longDays[weekday]), \(two(day))-\(month)-\(two(year % 100)) \(clock) GMT") }
            for form in forms {
                #expect(RetryAfter.parse(form, now: 0) == Int64(seconds) * 1000, "\(form)")
            }
        }
    }

    private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private func four(_ number: Int) -> String { String(repeating: "0", count: max(0, 4 - "\(number)".count)) + "\(number)" }

    @Test func M6_any_header_is_accepted() {
        var random = SeededGenerator(13)
        let words = ["Sun,", "06", "Nov", "1994", "08:49:37", "GMT", "-", ":", ",", " ", "9", "99999999999999999999", "é", "\u{0}", "-1"]
        for _ in 0..<3_000 {
            let header =
                random.chance(50)
                ? (0..<random.int(0...8)).map { _ in random.pick(words) }.joined(separator: random.pick(["", " "]))
                : String(decoding: random.bytes(random.int(0...70)), as: UTF8.self)
            for now in [Int64(0), 1_700_000_000_000, -5_000] {
                if let wait = RetryAfter.parse(header, now: now) { #expect(wait >= 0, "\(header)") }
            }
        }
    }
}
