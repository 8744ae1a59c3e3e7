"""The role of a folder: by what a server says of it, by its name in any language, by the folders around it."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imapclient import imap_utf7

from nbstream.training.folder_roles import _key, decode_folder_name, folder_role, known_names
from nbstream.training.messages import FolderRole

NAMES = {
    FolderRole.JUNK: (
        "Junk, Spam, Bulk Mail, Bulk, Junk E-mail, Junk-E-Mail, Unerwünscht, Spamverdacht, Courrier indésirable, "
        "Indésirables, Pourriel, Correo no deseado, Posta indesiderata, Ongewenste e-mail, Lixo eletrônico, "
        "Lixo Eletrónico, Uønsket e-mail, Skräppost, Søppelpost, Roskaposti, Niechciane, Wiadomości-śmieci, "
        "Nevyžádaná pošta, Nevyžiadaná pošta, Levélszemét, Спам, Нежелательная почта, Небажана пошта, Önemsiz, "
        "Gereksiz E-posta, İstenmeyen, Ανεπιθύμητη αλληλογραφία, Mesaje nedorite, Нежелана поща, Neželjena pošta, "
        "Rämpspost, Mēstules, Šlamštas, Thư rác, 垃圾邮件, 垃圾郵件, 迷惑メール, 스팸함, 정크메일, דואר זבל, "
        "البريد العشوائي, هرزنامه, เมลขยะ"
    ),
    FolderRole.SENT: (
        "Sent, Sent Items, Sent Messages, sent-mail, Gesendet, Gesendete Objekte, Éléments envoyés, Envoyés, "
        "Enviados, Elementos enviados, Posta inviata, Verzonden items, Itens Enviados, Sendt post, Skickat, "
        "Lähetetyt, Wysłane, Odeslaná pošta, Elküldött elemek, Отправленные, Надіслані, Gönderilmiş Öğeler, "
        "Απεσταλμένα, 已发送, 寄件備份, 送信済みアイテム, 보낸 편지함"
    ),
    FolderRole.TRASH: (
        "Trash, Deleted Items, Deleted Messages, Bin, Papierkorb, Gelöscht, Gelöschte Elemente, Corbeille, "
        "Éléments supprimés, Papelera, Cestino, Posta eliminata, Prullenbak, Verwijderde items, "
        "Lixeira, Papirkurv, Papperskorgen, Roskakori, Kosz, Koš, Kuka, Корзина, Удаленные, Кошик, Çöp Kutusu, "
        "Κάδος απορριμμάτων, 废件箱, 已删除邮件, ゴミ箱, 휴지통, סל אשפה"
    ),
    FolderRole.DRAFTS: (
        "Drafts, Entwürfe, Brouillons, Borradores, Bozze, Concepten, Rascunhos, Kladder, Utkast, Luonnokset, "
        "Szkice, Koncepty, Piszkozatok, Черновики, Чернетки, Taslaklar, Πρόχειρα, 草稿, 下書き, 임시 보관함"
    ),
    FolderRole.ARCHIVE: "Archive, Archives, Archiv, Archivo, Archivio, Archief, Arquivo, Arkiv, Архив, 归档",
    FolderRole.OTHER: (
        "Outbox, Postausgang, Boîte d'envoi, Исходящие, Templates, Vorlagen, Modèles, Шаблоны, Notes, Notizen, "
        "Calendar, Contacts, RSS Feeds, All Mail, Alle Nachrichten, Вся почта, Viren"
    ),
    FolderRole.INBOX: "INBOX, inbox, Posteingang, Boîte de réception, 受信トレイ",
    FolderRole.SORTED: "Rechnungen, Junkers, Spam-Konferenz, Sentimental, Projects, 2019, Trashcore, Important",
}


@pytest.mark.parametrize(("name", "role"), [(name, role) for role in NAMES for name in NAMES[role].split(", ")])
def test_a_name_that_a_mail_program_gives_has_its_role(name: str, role: FolderRole) -> None:
    assert folder_role(name) is role
    assert folder_role(f"INBOX/{name.upper()}") is role  # Courier and Cyrus have all folders there


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("geloescht", FolderRole.TRASH),
        ("Geloscht", FolderRole.TRASH),
        ("JUNK_EMAIL", FolderRole.JUNK),
        ("  Spam ", FolderRole.JUNK),
        ("Courrier indesirable", FolderRole.JUNK),
        ("Gesendet-2019", FolderRole.SENT),
        ("Archive 2024", FolderRole.ARCHIVE),
    ],
)
def test_spelling_makes_no_difference(name: str, role: FolderRole) -> None:
    assert folder_role(name) is role


@pytest.mark.parametrize("name", ["Lixo", "Basura", "Szemét", "垃圾箱", "Smeće"])
def test_a_name_that_is_junk_here_and_trash_there_is_not_learned(name: str) -> None:
    assert folder_role(name) is FolderRole.TRASH


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ([r"\HasNoChildren", r"\Junk"], FolderRole.JUNK),
        ([r"\Spam"], FolderRole.JUNK),
        ([r"\Sent"], FolderRole.SENT),
        ([r"\Trash", r"\Junk"], FolderRole.TRASH),
        ([r"\Drafts"], FolderRole.DRAFTS),
        ([r"\Archive"], FolderRole.ARCHIVE),
        ([r"\All"], FolderRole.OTHER),
        ([r"\Archive", r"\All"], FolderRole.OTHER),
        ([r"\Important"], FolderRole.OTHER),
        ([r"\HasNoChildren", r"\Subscribed"], FolderRole.SORTED),
    ],
)
def test_what_the_server_says_comes_before_the_name(attributes: list[str], role: FolderRole) -> None:
    assert folder_role("Ablage", attributes) is role
    if role is not FolderRole.SORTED:
        assert folder_role("Spam", attributes) is role
        assert folder_role("Notes", attributes) is role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Archive/2019", FolderRole.ARCHIVE),
        ("Sent/2019/March", FolderRole.SENT),
        ("Archive/Spam", FolderRole.JUNK),
        ("Trash/Spam", FolderRole.TRASH),
        ("Spam/Trash", FolderRole.TRASH),
        ("Drafts/Sent", FolderRole.DRAFTS),
        ("Junk/2019", FolderRole.JUNK),
        ("Junk/Ham", FolderRole.SORTED),
        ("Junk/Not Spam", FolderRole.SORTED),
        ("Junk/Ann's friends", FolderRole.OTHER),
        ("INBOX/Projects/Moon", FolderRole.SORTED),
        ("[Gmail]/Spam", FolderRole.JUNK),
        ("[Gmail]/Alle Nachrichten", FolderRole.OTHER),
        ("[Gmail]/Whatever it is in Welsh", FolderRole.OTHER),
        ("virtual/Flagged", FolderRole.OTHER),
        ("Calendar/Work", FolderRole.OTHER),
    ],
)
def test_the_folders_around_it_count(name: str, role: FolderRole) -> None:
    assert folder_role(name) is role


def test_each_name_has_one_role() -> None:
    roles = defaultdict(set)
    for name, role in known_names():
        assert name == name.strip()
        assert len(_key(name)) > 1 or ord(_key(name)) > 0x2E80, name  # one message is a word in Chinese alone
        roles[_key(name)].add(role)

    assert [key for key, found in roles.items() if len(found) > 1] == []
    assert len(roles) > 1500


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_modified_utf_7_is_read_back(name: str) -> None:
    assert decode_folder_name(imap_utf7.encode(name)) == name


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"Gel&APY-scht", "Gelöscht"),
        ("Gelöscht".encode(), "Gelöscht"),  # some servers and Maildirs have UTF-8
        (b"&V4NXPpCuTvY-", "垃圾邮件"),
        (b"Tom &- Ann", "Tom & Ann"),
        (b"&AAo-&AAA-", "\n\0"),
        (b"&2AA-", "&2AA-"),  # half a surrogate pair
        (b"&APY", "&APY"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"&" * 100_000, "&" * 100_000),
    ],
)
def test_what_is_no_modified_utf_7_is_shown_as_it_stands(raw: bytes, name: str) -> None:
    assert decode_folder_name(raw) == name
