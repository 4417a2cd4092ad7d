import Foundation
import Testing

@testable import MsgQueue

@Suite struct TimestampTests {
    private typealias Timestamp = MessageQueue.Timestamp

    @Test func a_timestamp_converts_to_a_date_and_back() {
        let moment = Timestamp(millisecondsSince1970: 1_709_969_400_250)
        let date = Date(timeIntervalSince1970: moment.secondsSince1970)
        #expect(Timestamp(secondsSince1970: date.timeIntervalSince1970) == moment)
        #expect(moment.description == "2024-03-09T07:30:00.250Z")
        #expect(Timestamp(millisecondsSince1970: -1).description == "1969-12-31T23:59:59.999Z")
        #expect(abs(Timestamp.now.secondsSince1970 - Date().timeIntervalSince1970) < 60)
    }

    @Test func no_number_traps() {
        #expect(Timestamp(secondsSince1970: .nan).millisecondsSince1970 == 0)
        #expect(Timestamp(secondsSince1970: .infinity).millisecondsSince1970 == Int64.max)
        #expect(Timestamp(secondsSince1970: -.infinity).millisecondsSince1970 == Int64.min)
        let last = Timestamp(millisecondsSince1970: Int64.max)
        #expect(last + .seconds(Int64.max) == last)
        #expect((last - .seconds(1)).millisecondsSince1970 == Int64.max - 1_000)
        #expect(last - Timestamp(millisecondsSince1970: Int64.min) == .milliseconds(Int64.max))
        #expect(last.description.hasPrefix("9999-12-31T23:59:59"))
    }

    @Test func timestamps_and_durations_can_be_added_and_subtracted() {
        let moment = Timestamp(millisecondsSince1970: 10_000)
        #expect(moment + .seconds(5) > moment)
        #expect((moment + .seconds(5)) - moment == .seconds(5))
        #expect((moment - .milliseconds(1)).millisecondsSince1970 == 9_999)
    }

    @Test(
        arguments: [
            (Duration.zero, 0), (.nanoseconds(1), 1), (.nanoseconds(-1), -1), (.microseconds(1_500), 2), (.milliseconds(-3), -3),
            (.seconds(2), 2_000), (.milliseconds(Int64.max), Int64.max), (.milliseconds(Int64.min), Int64.min),
            (.seconds(Int64.max) * 10, Int64.max), (.seconds(Int64.min) * 10, Int64.min),
        ] as [(Duration, Int64)])
    func a_duration_becomes_milliseconds_rounded_away_from_zero(duration: Duration, expected: Int64) {
        #expect(duration.milliseconds == expected)
    }

    @Test func H6_relative_time_as_text() {
        let now = Timestamp(millisecondsSince1970: 1_709_969_400_000)
        #expect((now - .seconds(300)).relative(to: now) == "5m ago")
        #expect((now + .seconds(300)).relative(to: now) == "Just now")
        #expect((now - .seconds(30 * 86_400)).relative(to: now) == "2024-02-08")
    }
}
