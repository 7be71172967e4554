"""The usual names of a table's columns, in English, German, French and Spanish, by the field of a record."""

from __future__ import annotations

import unicodedata

_NAMES = {
    "text": """
        content, message, body, note, memory, statement, sentence, description, comment
        Nachricht, Inhalt, Notiz, Beschreibung, Bemerkung, Kommentar
        texte, contenu, remarque, commentaire
        texto, mensaje, contenido, nota, descripción, comentario
        """,
    "created_at": """
        timestamp, datetime, date, time, created, created at, ts, sent at, sent
        Zeitstempel, Zeitpunkt, Datum, Zeit, Uhrzeit, erstellt, erstellt am, gesendet, gesendet am
        horodatage, date et heure, heure, créé le, envoyé le
        fecha y hora, fecha, hora, creado, enviado
        """,
    "author": """
        speaker, sender, from, name, username, user name, user
        Absender, Verfasser, Autor, von, Benutzer, Benutzername
        auteur, expéditeur, de, nom, utilisateur
        remitente, nombre, usuario
        """,
    "role": "Rolle, rôle, rol",
    "conversation_id": """
        conversation, thread, thread id, channel, chat, chat id
        Unterhaltung, Gespräch, Kanal
        fil, canal, discussion
        conversación, hilo
        """,
    "label": """
        title, heading
        Titel, Überschrift, Betreff, Thema
        titre, objet, sujet
        título, asunto
        """,
    "tags": """
        keywords, labels
        Schlagwörter, Stichwörter
        mots-clés, étiquettes
        palabras clave, etiquetas
        """,
}


def folded(name: str) -> str:
    """Return a name as it is compared: its letters and digits, without case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name.casefold())))


COLUMN_NAMES = {
    field: tuple(folded(name) for line in names.strip().split("\n") for name in line.split(","))
    for field, names in _NAMES.items()
}
