/// Everything that is decided about sending, without any effect: the schedule, the messages being sent, late answers, statistics.
///
/// Inputs are functions that take the moment and return effects as data. The engine performs them: it writes the changes, commits, and only
/// then follows the notices. The simulation of the tests drives the same value.
package struct Core {
    package let options: Options
    package let opening: Opening
    let policy: RetryPolicy
    package var scheduler: Scheduler
    package var statistics: StatisticsKeeper
    /// The messages being sent, as they were when their attempts began; by token.
    package internal(set) var flying: [UInt64: Row] = [:]
    /// Attempts that timed out, for answers that come late; the oldest are forgotten.
    var late = LateAttempts()
    /// What the prompt that stands asks about.
    package internal(set) var prompt: Prompt?
    package internal(set) var nextToken: UInt64
    let firstToken: UInt64
    /// The first token of an attempt that may begin after the last resume.
    private var resumedAt: UInt64 = 0

    /// `firstToken`: tokens of an earlier run must not be taken for one of this.
    package init(_ options: Options, _ opening: Opening, firstToken: UInt64, openedAt: Int64) {
        self.options = options
        self.opening = opening
        self.firstToken = firstToken
        nextToken = firstToken
        policy = RetryPolicy(options)
        scheduler = Scheduler(options, opening)
        statistics = StatisticsKeeper(openedAt: openedAt)
    }

    // MARK: What a person does

    /// Sending goes on. False: it was not paused.
    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        if conversation == nil { resumedAt = nextToken }
        return scheduler.resume(conversation, now)
    }

    /// An answer to what was sent before the last resume says nothing about who we are now.
    func mayPause(_ flight: Flight) -> Bool { flight.token >= resumedAt }

    /// A message that is being sent was cleared: it goes when its attempt ends, unless that succeeds.
    package mutating func doom(_ token: UInt64) { flying[token]?.progress.doomed = true }

    // MARK: The prompt

    package mutating func promptRaised(_ asked: Prompt, _ now: Moment) -> [Effect] {
        scheduler.promptRaised(now)
        prompt = asked
        return [.notice(.event(.prompt(asked)))]
    }

    package mutating func promptWithdrawn() -> [Effect] {
        scheduler.promptWithdrawn()
        prompt = nil
        return [.notice(.event(.promptWithdrawn))]
    }
}
