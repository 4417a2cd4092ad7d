/// The messages of a page.
package struct Filter: Sendable, Equatable {
    /// nil: all.
    package var conversation: String?
    package var statuses: StatusSet
    /// The page begins after this sequence (before it, if newest first); 0: at the first message.
    package var after: Int64
    /// 1 to 1000.
    package var limit: Int
    package var newestFirst: Bool
    package var withoutBodies: Bool

    package init(
        conversation: String? = nil, statuses: StatusSet = .unsent, after: Int64 = 0, limit: Int = 50,
        newestFirst: Bool = false, withoutBodies: Bool = false
    ) {
        self.conversation = conversation
        self.statuses = statuses
        self.after = after
        self.limit = limit
        self.newestFirst = newestFirst
        self.withoutBodies = withoutBodies
    }
}
