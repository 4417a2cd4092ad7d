/// Which messages a page shows.
public struct Filter: Sendable, Equatable {
    /// nil: all.
    public var conversation: String?
    public var statuses: StatusSet
    /// The page after this sequence (before it, when newest first); 0: from the end.
    public var after: Int64
    /// 1 to 1000.
    public var limit: Int
    public var newestFirst: Bool
    public var withoutBodies: Bool

    public init(
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
