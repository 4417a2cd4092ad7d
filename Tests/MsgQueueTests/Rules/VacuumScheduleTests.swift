import Testing

@testable import MsgQueue

@Suite struct VacuumScheduleTests {
    @Test func F7_space_is_given_back_only_while_the_store_is_unused() {
        var schedule = VacuumSchedule()
        #expect(schedule.dueAt == Int64.max)
        schedule.note(commits: 1, at: 100)
        #expect(schedule.dueAt == 100 + VacuumSchedule.idleTime)
        #expect(!schedule.wasUsed(commits: 1) && schedule.wasUsed(commits: 2))
        schedule.note(commits: 2, at: 200)
        #expect(schedule.dueAt == 100 + VacuumSchedule.idleTime, "not postponed by each commit")
        schedule.wait(3_000, commits: 2)
        #expect(schedule.dueAt == 3_000 + VacuumSchedule.idleTime)
        schedule.end(commits: 2)
        schedule.note(commits: 2, at: 10_000)
        #expect(schedule.dueAt == Int64.max, "nothing was changed")
    }

    @Test func F7_steps_stay_short() throws {
        var schedule = VacuumSchedule()
        let first = try #require(schedule.pages(file: 100 << 20, free: 50 << 20))
        schedule.ranStep(from: 0, to: 20, commits: 1)
        let second = try #require(schedule.pages(file: 100 << 20, free: 50 << 20))
        #expect(second < first)
        for _ in 0..<10 { schedule.ranStep(from: 0, to: 0, commits: 1) }
        #expect(try #require(schedule.pages(file: 100 << 20, free: 50 << 20)) <= 64)
    }

    @Test func F7_a_little_free_space_is_kept() {
        var schedule = VacuumSchedule()
        #expect(schedule.pages(file: 100 << 20, free: 10 << 20) == nil)
        #expect(schedule.pages(file: 1 << 20, free: 100 << 10) == nil)
        #expect(schedule.pages(file: 100 << 20, free: 30 << 20) != nil)
        schedule.ranStep(from: 0, to: 1, commits: 1)
        #expect(schedule.pages(file: 100 << 20, free: 10 << 20) != nil, "a run that has begun goes on")
        #expect(schedule.pages(file: 100 << 20, free: 5 << 20) == nil)
    }
}
