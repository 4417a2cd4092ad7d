import Testing

@testable import MsgQueue

@Suite struct CollectTimerTests {
    @Test func it_begins_with_the_first_look_and_asks_at_intervals() {
        var timer = CollectTimer(Options())
        #expect(timer.deadline == Int64.max && !timer.isDue(at: Int64.max - 1))
        timer.looked(at: 1_000)
        timer.looked(at: 3_000)
        #expect(timer.deadline == 6_000)
        #expect(!timer.isDue(at: 5_999) && timer.isDue(at: 6_000) && !timer.isDue(at: 6_000))
        // A time that was missed is not made up for.
        #expect(timer.isDue(at: 100_000) && timer.deadline == 105_000)
    }

    @Test func it_never_begins_without_an_interval_or_where_nothing_is_taken_over() {
        var without = Options()
        without.collectInterval = 0
        var (reading, repairing) = (Options(), Options())
        (reading.readOnly, repairing.maintenance) = (true, true)
        for options in [without, reading, repairing] {
            var timer = CollectTimer(options)
            timer.looked(at: 1_000)
            #expect(timer.deadline == Int64.max)
        }
    }

    @Test func the_largest_times_do_not_overflow() {
        var options = Options()
        options.collectInterval = Options.day
        var timer = CollectTimer(options)
        timer.looked(at: Int64.max - 1)
        #expect(timer.deadline == Int64.max)
    }
}
