"""Exports of other programs: chats with an assistant and between people, and mail, as fields of records."""
